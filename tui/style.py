"""The style sheet."""

CSS = """
Screen { background: $background; color: $foreground; overflow: hidden; }
Static { text-wrap: nowrap; text-overflow: ellipsis; }
#header { height: 1; background: $surface; }
#message { height: 1; }
#keys { height: 1; background: $surface; }
#main { height: 1fr; }
#side { width: 37; height: 100%; }
#beside { width: 1fr; height: 100%; border-left: solid $rule; }
OperateScreen #panel { border-left: solid $rule; }
#head { height: 3; }
RecordScreen #head { height: 1; }
#panel { width: 1fr; height: 1fr; }
#grid { height: 1fr; }
#legend { height: 4; }
OperateScreen #legend { height: 2; }
Input { background: $background; }
Input.-textual-compact { background: $background; }
OptionList { background: $background; border: none; padding: 0; height: 1fr; }
OptionList:focus { background: $background; background-tint: $background 0%; border: none; }
OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
    background: $chosen; color: $strong; text-style: bold;
}
#plan { max-height: 100%; border-title-color: $strong; border-title-style: bold; }
OptionList:nocolor > .option-list--option-highlighted { text-style: bold reverse; }
#list-title, #question { height: auto; }
#plans { width: 19; }
#told { width: 1fr; height: 100%; border-left: solid $rule; scrollbar-size-vertical: 1; }
#plan-lines { height: auto; }
#runs { scrollbar-size-vertical: 1; }
#run { height: 3; }
#table { height: 1fr; }
#expression-line, #model-line { height: 1; }
#expression-label, #model-label { width: auto; }
#expression, #model { width: 1fr; }
#complaint { height: 1; }
TargetScreen #complaint, LoadScreen #complaint { height: 3; }
#drift { height: 6; }
#other { width: 1fr; height: 100%; }
#before-title, #after-title { height: 1; }
#list { height: 1fr; }
#more { height: 0; }
#figures { height: 6; }
ModalScreen { background: transparent; align: center middle; }
* { scrollbar-color: $rule; scrollbar-color-hover: $rule; scrollbar-color-active: $rule;
    scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface; }
.window {
    width: 100%; max-width: 100; height: auto; max-height: 90%;
    background: $surface; border: solid $rule; padding: 0 1;
}
.window Static, .ask, #hint, .small, #complaint { text-wrap: wrap; text-overflow: fold; }
.window Input, .window OptionList { background: $surface; }
.window OptionList { height: auto; max-height: 16; }
#stream { height: auto; }
#stream-scroll { height: 1fr; scrollbar-size-vertical: 1; }
#stream-status { height: 1; }
.whole { max-width: 100%; height: 1fr; max-height: 100%; }
.whole-under { max-width: 100%; }
#attention-title { height: 1; }
#attention-texts { width: 35; scrollbar-size-vertical: 0; }
#attention-picture { width: 1fr; scrollbar-size-vertical: 1; }
.sheet { scrollbar-size-vertical: 1; }
.whole Static, .sheet Static { text-wrap: nowrap; text-overflow: clip; }
.under { width: 100%; max-width: 100; height: 1; background: $surface; }
.ask { width: 70; height: auto; background: $surface; border: solid $warning; padding: 1 2; }
.ask Input { background: $panel; }
.field { height: 1; }
.field .name { width: 15; }
.field Input { width: 1fr; }
#hint { height: 2; }
TooSmall { background: $background; }
.small { width: 100%; height: auto; text-wrap: wrap; text-align: center; }
"""
