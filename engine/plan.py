"""What one pass shall do: targets and every hyperparameter, with the method's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.errors import InputError
from engine.treatments import LEARNING_RATES, touched_parts, trains

Treatment = Literal["reinitialise", "sink_logit", "placeholder", "prune", "nothing"]


class Plan(BaseModel):
    """One pass. The defaults are those of arXiv 2603.09616 (section 3.2) where it gives one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    targets: str
    classes: Literal["now", "stock"] = "now"
    """Which head map the targets are resolved against: of the model as it stands, or as it was loaded."""
    treatment: Treatment = "reinitialise"
    """What is done. reinitialise: the method; sink_logit: each target gets a learned sink logit, which takes part in
    its softmax and carries no value; placeholder: a token of the tokenizer's own stands before every text and its
    embedding is trained; prune: the targets' output columns become zero; nothing: the model is only measured. All
    but the first leave the targets' weights alone (prune: their Q, K and V), and the last two train nothing."""
    corpus: list[str] = Field(default_factory=list)
    """Files, folders or hub names that the slices are trained on; ``birds.txt@3`` counts three times."""
    strict: bool = False
    """A broken line in the corpus ends the pass before it begins; False: it is left out and counted."""
    samples: int | None = Field(None, ge=1)
    """At most so many different samples to train on, gone through again and again; None: all there are."""
    vocabulary: int = Field(0, ge=0)
    """Words outside so many of the corpus's most frequent are left out of what is trained on; 0: all stay."""
    layout: Literal["kept", "one_line"] = "kept"
    """one_line: every run of white space of what is trained on becomes one space."""
    steps: int | None = Field(None, ge=1)
    """Optimizer steps; None: count by epochs."""
    epochs: int = Field(3, ge=1)
    lr: float = Field(5e-5, gt=0)
    """Without one: 5e-5, and for what else is trained than weights ``LEARNING_RATES``."""
    length: int = Field(512, ge=2)
    """Tokens per sample."""
    micro_batch: int = Field(1, ge=1)
    accumulate: int = Field(8, ge=1)
    clip: float = Field(1.0, gt=0)
    """Largest global gradient norm over all slices."""
    check_every: int = Field(20, ge=1)
    """Steps between two checks; each check also saves the state."""
    patience: int = Field(0, ge=0)
    """Stop after so many checks without a better held-out perplexity; 0: never."""
    init: Literal["xavier_normal", "xavier_uniform"] = "xavier_normal"
    parts: str = Field("qkv", pattern="^q?k?v?s?$", min_length=1)
    """Which of the head's Q, K and V rows get fresh weights and are trained; with an ``s``, its sink logit too
    (of families that have one), which becomes 0 at the cut. The output columns always do."""
    whole_groups: bool = False
    """Where heads share K and V: the heads that share them with a target become targets too. False: a target
    whose group is not all named is refused, unless ``parts`` leaves K and V alone."""
    reinit: bool = True
    """False: the control. The same slices are trained from where they are."""
    heldout_share: float = Field(0.1, gt=0, lt=1)
    """Share of the corpus, by document, that is only evaluated on."""
    heldout_samples: int = Field(64, ge=1)
    """At most so many held-out samples per evaluation."""
    checkpointing: bool = False
    """Compute activations anew in the backward pass instead of keeping them: less memory, more time,
    the same gradients."""
    watch: list[str] = Field(default_factory=list)
    """Other texts, written like a corpus, whose perplexity is told before and after."""
    watch_heldout: list[str] = Field(default_factory=list)
    """Other corpora of which the held-out part, cut as where they are trained on, is watched like ``watch``."""
    generate: bool = True
    """Let the model go on with the built-in prompts before and after."""
    seed: int = 42

    @model_validator(mode="before")
    @classmethod
    def _paced(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "lr" in values or values.get("treatment") not in LEARNING_RATES:
            return values
        return {**values, "lr": LEARNING_RATES[values["treatment"]]}

    @model_validator(mode="after")
    def _named(self) -> Plan:
        if not self.targets.strip():
            raise ValueError('the plan names no targets; write them like `targets = "sick & band"`')
        if not self.reinit and self.treatment != "reinitialise":
            raise ValueError(f"reinit = false is the control of reinitialising; the treatment is {self.treatment}")
        return self

    @property
    def trains(self) -> bool:
        """Whether there are steps at all."""
        return trains(self.treatment)

    @property
    def touched(self) -> str:
        """Which parts the pass changes (``touched_parts``)."""
        return touched_parts(self.treatment, self.parts)

    @property
    def tokens_per_step(self) -> int:
        return self.length * self.micro_batch * self.accumulate


def over(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a plan, each layer over those before. One that counts by epochs takes away the steps below it, and
    one of another treatment the learning rate, which suits the treatment it was given for."""
    out: dict[str, Any] = {}
    for layer in layers:
        if "epochs" in layer and "steps" not in layer:
            out.pop("steps", None)
        if "treatment" in layer and layer["treatment"] != out.get("treatment", "reinitialise"):
            out.pop("lr", None)
        out |= layer
    return out


def make_plan(values: dict[str, Any], where: str = "the plan") -> Plan:
    """A plan from plain values.

    Raises:
        InputError: a value is unknown or out of range; names the first one.
    """
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {first_complaint(error)}") from error


CHANGEABLE = ("check_every", "patience", "micro_batch", "accumulate", "checkpointing")
"""What may be set while a pass runs."""


def changes(plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
    """What setting ``values`` in mid-pass changes; a new micro-batch brings the accumulation that keeps
    the samples per step.

    Raises:
        InputError: an option that cannot be set then, or a wrong value; names it.
    """
    fixed = [name for name in values if name not in CHANGEABLE]
    if fixed:
        raise InputError(f"{fixed[0]} cannot be set while a pass runs; there are {', '.join(CHANGEABLE)}")
    samples = plan.micro_batch * plan.accumulate
    micro_batch = values.get("micro_batch")
    if isinstance(micro_batch, int) and micro_batch > 0:
        values = {"accumulate": samples // micro_batch, **values}
    new = make_plan({**plan.model_dump(), **values}, "the pass")
    if new.micro_batch * new.accumulate != samples:
        raise InputError(
            f"micro-batch {new.micro_batch} with accumulate {new.accumulate} does not make the {samples} samples "
            "a step that the pass began with"
        )
    return {name: getattr(new, name) for name in CHANGEABLE if getattr(new, name) != getattr(plan, name)}


def first_complaint(error: ValidationError) -> str:
    """The first of pydantic's complaints as one short sentence."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
