"""Edits that turn what save_pretrained writes into what older programs wrote: names, extra tensors, config keys."""
import torch


def add_bert_extras(tensors: dict) -> dict:
    """A pooler, a next-sentence head and the position_ids buffer: none is part of the forward pass."""
    d = tensors["bert.embeddings.word_embeddings.weight"].shape[1]
    n = tensors["bert.embeddings.position_embeddings.weight"].shape[0]
    return tensors | {
        "bert.pooler.dense.weight": torch.randn(d, d),
        "bert.pooler.dense.bias": torch.randn(d),
        "cls.seq_relationship.weight": torch.randn(2, d),
        "cls.seq_relationship.bias": torch.randn(2),
        "bert.embeddings.position_ids": torch.arange(n)[None],
    }


def old_norm_names(tensors: dict) -> dict:
    """LayerNorm.weight and .bias were once called gamma and beta."""
    return {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors.items()
    }
