"""Loading a patient: ``demo``, a local folder, a hub name, or a GGUF file, which is dequantised. Safetensors or
GGUF only, never remote code."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from engine import demo, events
from engine.anatomy import Anatomy, anatomy_of, context_of, read_config, untrainable
from engine.checkpoint import read_header, weight_files, weights_sha256
from engine.errors import InputError
from engine.files import require_space
from engine.gguf import is_gguf, read_gguf
from engine.nn.packed import begin_as_told, require_gguf, unmark

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_FEW_PARAMETERS = 20_000_000


@dataclass
class Patient:
    """A loaded model with its tokenizer and anatomy."""

    source: str
    folder: Path
    """Or the GGUF file."""
    revision: str
    weights_sha256: str
    model: PreTrainedModel
    tokenizer: Any
    anatomy: Anatomy
    context: int
    """Longest text in tokens that is measured or trained on."""
    untrainable: str = ""
    """Why it can be diagnosed but not operated on; empty where it can."""
    stored: str = ""
    """How its weights came where they are no longer that: dequantised from GGUF."""
    placeholder: int | None = None
    """The token that stands before every text, where one has been trained to."""

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    def block(self, layer: int) -> nn.Module:
        """A layer: attention and MLP."""
        return self.model.get_submodule(f"{self.anatomy.blocks}.{layer}")

    def attention(self, layer: int) -> nn.Module:
        """The attention module of a layer."""
        return self.model.get_submodule(self.anatomy.attention_name(layer))

    def ids(self, text: str, at_most: int | None = None) -> torch.Tensor:
        """A text as this patient's tokenizer starts it, cut to ``at_most`` tokens and to the context, with the
        placeholder before it if there is one  # (T,)

        Raises:
            InputError: nothing is left of the text.
        """
        limit = min(at_most or self.context, self.context - len(self.before))
        ids = self.tokenizer(text, verbose=False)["input_ids"][:limit]  # verbose warns of what is cut here anyway
        special = set(self.tokenizer.all_special_ids)
        if not any(i not in special for i in ids):
            raise InputError(
                f"a text has no tokens to measure: {text[:40]!r} is empty or leaves only special tokens; write words"
            )
        return torch.tensor([*self.before, *ids], device=self.device)

    @property
    def before(self) -> list[int]:
        """What stands before every text: the placeholder, or nothing."""
        return [] if self.placeholder is None else [self.placeholder]

    def loaded(self) -> events.Loaded:
        """The event that tells of this patient."""
        a = self.anatomy
        return events.Loaded(
            source=self.source,
            revision=self.revision,
            weights_sha256=self.weights_sha256,
            family=a.family,
            n_layers=a.n_layers,
            n_heads=a.n_heads,
            n_kv_heads=a.n_kv_heads,
            d_model=a.d_model,
            d_head=a.d_head,
            vocabulary=a.vocabulary,
            context=self.context,
            parameters=a.total_parameters,
            position_encoding=a.position_encoding,
            slopes=list(a.slopes),
            config=a.told,
            dtype=self.dtype,
            device=str(self.device),
            threads=torch.get_num_threads(),
            stored=self.stored,
        )


def find(source: str, *, weights: bool = True) -> tuple[Path, str]:
    """The folder of a model, or its GGUF file, and its revision (a hub commit, or empty).

    A name that could be a folder is looked for as one first, and the hub is asked only for names of
    the form ``owner/model`` that no local folder could mean. ``weights=False`` fetches the config alone.

    Raises:
        InputError: nothing is found there.
    """
    if source == "demo":
        return demo.FOLDER, ""
    path = Path(source).expanduser()
    if path.exists():
        if not path.is_dir() and not is_gguf(path):
            raise InputError(f"{source} is a file; name the folder that holds the model, or a .gguf file")
        return path, ""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source) or source.startswith(".") or path.parent.is_dir():
        raise InputError(f"folder not found: {source}; a hub name is written like bigscience/bloom-560m")
    return _fetch(source, weights)


def _fetch(name: str, weights: bool) -> tuple[Path, str]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "tokenizer*", "*.safetensors"] if weights else ["config.json"]
    try:
        try:
            folder = snapshot_download(name, allow_patterns=patterns, local_files_only=True)
            if weights:
                weight_files(Path(folder))
        except (LocalEntryNotFoundError, InputError):
            folder = snapshot_download(name, allow_patterns=patterns)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"folder not found: {name}, and the hub did not give it either ({reason})") from error
    return Path(folder), Path(folder).name


def pick_device(device: str) -> torch.device:
    """``auto`` takes the first GPU, else the CPU.

    Raises:
        InputError: the device is not there.
    """
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise InputError(f"unknown device {device!r}; there are auto, cpu, cuda:0, cuda:1 …")
    chosen = torch.device(device)
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {device} is not there: {torch.cuda.device_count()} CUDA devices are visible")
    return chosen


def load(source: str, device: str = "auto", dtype: str = "auto") -> Patient:
    """Load a patient for measuring and operating: eager attention, no dropout, no gradients.

    Raises:
        InputError: no such model, a family without an adapter, damaged or missing weights, a wrong
            device or dtype.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}; there are auto, {', '.join(DTYPES)}")
    folder, revision = find(source)
    config = read_config(folder)
    anatomy = anatomy_of(config, source)
    chosen = pick_device(device)
    packed = is_gguf(folder)
    if packed:
        require_gguf(source)
        named: dict[str, Any] = {"gguf_file": folder.name}
        dtype = "float32" if dtype == "auto" else dtype
    else:
        named = {}
        for file in weight_files(folder):
            read_header(file)  # a truncated file gives its sentence here, before the library's traceback
    place = folder.parent if packed else folder
    transformers_logging.disable_progress_bar()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            place,
            dtype="auto" if dtype == "auto" else DTYPES[dtype],
            attn_implementation="eager",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **named,
        )
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False, **named)
    except Exception as error:
        if not packed and not isinstance(error, OSError | ValueError | RuntimeError | KeyError | ImportError):
            raise
        # a damaged GGUF file makes its readers raise anything at all
        told = [*str(error).strip().splitlines(), type(error).__name__]
        raise InputError(f"{source} cannot be loaded: {told[0]}") from error
    model, report = loaded
    if report["missing_keys"]:
        lacking = sorted(report["missing_keys"])
        raise InputError(f"the weights of {source} lack {lacking[0]} and {len(lacking) - 1} more; save the model anew")
    offloaded = sorted({name for name, p in model.named_parameters() if p.is_meta})
    if offloaded:
        raise InputError(
            f"{source} does not fit: {offloaded[0]} and {len(offloaded) - 1} more tensors were left out of memory"
        )
    stored = ""
    if packed:
        header = read_gguf(folder)
        stored = header.stored
        unmark(model)
        begin_as_told(tokenizer, header.metadata.get("tokenizer.ggml.add_bos_token"))
    nn.Module.to(model, chosen)
    model.eval()
    model.requires_grad_(False)
    put_right(model, anatomy)
    if chosen.type == "cpu" and anatomy.total_parameters < _FEW_PARAMETERS:
        torch.set_num_threads(1)  # matrices this small run several times slower on more threads
    context, why_not = context_of(folder, config), untrainable(config)
    digest = weights_sha256(folder)
    return Patient(source, folder, revision, digest, model, tokenizer, anatomy, context, why_not, stored)


@contextmanager
def dequantised(file: Path, dtype: str, folder: Path) -> Iterator[Path]:
    """While open, ``folder`` holds the model of a GGUF file as a checkpoint in safetensors.

    Raises:
        InputError: the file cannot be loaded, or the disk is too small.
    """
    patient = load(str(file), "cpu", dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    size = sum(p.numel() * p.element_size() for p in patient.model.parameters())
    require_space(folder.parent, 2 * size, "a dequantised checkpoint, twice for a while,")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        patient.model.save_pretrained(folder)
        patient.tokenizer.save_pretrained(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Positions that count from each text's first real token  # (B, T) -> (B, T)"""
    return (mask.cumsum(1) - 1).clamp_min(0)


def put_right(model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Where the library adds the ALiBi bias to the mask too (Falcon), take it out there: its eager attention
    would count it twice, which its fused attention and the training do not."""

    def without_bias(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs["attention_mask"]  # (B, n_heads, T, T): the bias, or the smallest number where nothing is seen
        return args, {**kwargs, "attention_mask": mask.masked_fill(mask > torch.finfo(mask.dtype).min / 2, 0)}

    for layer in range(anatomy.n_layers if anatomy.bias_in_mask else 0):
        attention = model.get_submodule(anatomy.attention_name(layer))
        attention.register_forward_pre_hook(without_bias, with_kwargs=True)


@contextmanager
def swapped_forward(module: nn.Module, forward: Any) -> Iterator[None]:
    """Let ``module`` compute with ``forward`` for a while; always puts back what it computed with."""
    own = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own
