#!/usr/bin/env python3
"""Makes adapters/NAME: a LoRA adapter of a golden model, as PEFT saves it, and golden.npz, the weights that PEFT merges.

All numbers of an adapter are random, because PEFT starts with B = 0.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

HERE = Path(__file__).resolve().parent
CASES = {
    "llama": (AutoModelForCausalLM, "llama", dict(r=2, lora_alpha=8, target_modules=["q_proj", "down_proj"])),
    "llama-rslora": (AutoModelForCausalLM, "llama", dict(r=4, lora_alpha=3, use_rslora=True, target_modules=["v_proj"],
                                                         modules_to_save=["norm"], rank_pattern={"layers.1.self_attn.v_proj": 3},
                                                         alpha_pattern={"layers.1.self_attn.v_proj": 5})),
    "gpt2": (AutoModelForCausalLM, "gpt2", dict(r=3, lora_alpha=6, fan_in_fan_out=True, target_modules=["c_attn"])),
    "gpt2-embedding": (AutoModelForCausalLM, "gpt2", dict(r=2, lora_alpha=2, target_modules=["wpe"])),
    "bert": (AutoModelForMaskedLM, "bert", dict(r=2, lora_alpha=4, bias="lora_only",
                                                target_modules=["query", "value"])),
}


def make(name: str) -> None:
    kind, base, settings = CASES[name]
    model = kind.from_pretrained(HERE / base, dtype=torch.float32)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    torch.manual_seed(len(name))
    adapted = get_peft_model(model, LoraConfig(**settings))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if value.requires_grad:
                value.copy_(0.1 * torch.randn_like(value) + (value if "norm" in key else 0))
    folder = HERE / "adapters" / name
    shutil.rmtree(folder, ignore_errors=True)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    merged = adapted.merge_and_unload().state_dict()
    changed = {key: value.numpy() for key, value in merged.items() if not torch.equal(value, before[key])}
    print(name, sorted(changed), file=sys.stderr)
    np.savez(folder / "golden.npz", **changed)


if __name__ == "__main__":
    for case in CASES:
        make(case)
