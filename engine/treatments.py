"""What a pass does to its targets, in words for people. No torch here, and no plan: records and journals tell it."""

from __future__ import annotations

ALL = ("reinitialise", "sink_logit", "placeholder", "prune", "nothing")


def named(treatment: str, reinit: bool = True) -> str:
    """In a word or two, as a column has it."""
    if treatment == "reinitialise" and not reinit:
        return "trained as they are"
    return {
        "reinitialise": "reinitialised",
        "sink_logit": "sink logit",
        "prune": "pruned",
        "nothing": "nothing done",
    }.get(treatment, treatment)


def told(treatment: str, reinit: bool, parts: str, init: str, token: str = "") -> str:
    """In half a sentence: what is done before training, and what trains.

    Args:
        parts: letters of Q, K, V as the plan has them
        token: the placeholder's text, where it is known
    """
    rows = ", ".join(parts.upper().removesuffix("S")) or "no"
    match treatment:
        case "sink_logit":
            return "a sink logit for each target, trained; their weights stay"
        case "placeholder":
            return f"a token before every text{f' ({token})' if token else ''}, whose embedding is trained"
        case "prune":
            return "output columns zeroed, nothing trained"
        case "nothing":
            return "nothing done, only measured"
        case _ if reinit:
            return f"{rows} rows reinitialised ({init}), output columns zeroed"
    return f"the control: nothing reinitialised, {rows} rows and output columns trained from where they are"
