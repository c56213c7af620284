"""Number of parameters of the published architectures, counted by transformers: preset_parameters.json.

No weights are made or downloaded: models are built on torch's meta device from configurations with the published
sizes. Each parameter counts once, including tied ones.
"""

import json
import pathlib

import torch
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM)


def bert(d, layers, heads):
    return BertForMaskedLM, BertConfig(hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads,
                                       intermediate_size=4 * d)


def gpt2(d, layers, heads, positions=1024):
    return GPT2LMHeadModel, GPT2Config(n_embd=d, n_layer=layers, n_head=heads, n_positions=positions)


def llama(d, layers, heads, kv_heads, mlp, positions):
    return LlamaForCausalLM, LlamaConfig(hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads,
                                         num_key_value_heads=kv_heads, intermediate_size=mlp,
                                         max_position_embeddings=positions)


PRESETS = {
    "bert-base": bert(768, 12, 12),
    "bert-large": bert(1024, 24, 16),
    "gpt2": gpt2(768, 12, 12),
    "gpt2-medium": gpt2(1024, 24, 16),
    "gpt2-large": gpt2(1280, 36, 20),
    "gpt2-xl": gpt2(1600, 48, 25),
    "gpt3": gpt2(12288, 96, 96, 2048),
    "llama-7b": llama(4096, 32, 32, 32, 11008, 2048),
    "llama-65b": llama(8192, 80, 64, 64, 22016, 2048),
    "llama2-70b": llama(8192, 80, 64, 8, 28672, 4096),
}


def is_attention(name):
    """W_Q, W_K, W_V, W_O and their biases, without the norm after BERT's output projection."""
    return ".attn." in name or ".self_attn." in name or ".attention.self." in name or ".attention.output.dense" in name


def transformer(d, heads, layers=6):
    """Only the attention: torch's bare encoder and decoder attentions, without biases."""
    def attentions(module):
        return sum(p.numel() for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention)
                   for p in m.parameters())
    model = torch.nn.Transformer(d, heads, layers, layers, dim_feedforward=4 * d, bias=False)
    return {"attention": attentions(model.encoder), "both_stacks": attentions(model)}


def main():
    counts = {}
    with torch.device("meta"):
        counts["transformer-base"] = transformer(512, 8)
        counts["transformer-big"] = transformer(1024, 16)
        for name, (model_class, config) in PRESETS.items():
            model = model_class(config)
            model.tie_weights()
            parameters = dict(model.named_parameters())
            counts[name] = {"all": sum(p.numel() for p in parameters.values()),
                            "attention": sum(p.numel() for n, p in parameters.items() if is_attention(n))}
    path = pathlib.Path(__file__).with_name("preset_parameters.json")
    path.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
