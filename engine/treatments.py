"""What a pass can do to its targets, and the words for it. Neither torch nor pydantic here: screens need it early."""

from __future__ import annotations

from collections.abc import Mapping

ALL = ("reinitialise", "sink_logit", "placeholder", "prune", "nothing")
LEARNING_RATES: Mapping[str, float] = {"sink_logit": 0.1, "placeholder": 0.01}
"""Where a plan names none: a logit is one number that has to travel some nats, and an embedding is not fine-tuned
but made anew. For all else the method's own."""


def trains(treatment: str) -> bool:
    """Whether a treatment takes any steps."""
    return treatment not in ("prune", "nothing")


def touched_parts(treatment: str, parts: str) -> str:
    """The letters of what a pass changes: ``q``, ``k``, ``v``, ``o`` (output columns), ``s`` (sink logit) of its
    targets, or ``e``, the embedding of one token."""
    return {"sink_logit": "s", "placeholder": "e", "prune": "o", "nothing": ""}.get(treatment, parts + "o")


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
