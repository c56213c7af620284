"""Rewrites the output of transformers 5 to the names and keys of transformers 4 and of the files on the hub.

rewrite(model_type) returns the edits of a family: one for config.json, and those for the tensors.
"""
import torch

import checkpoint_edits as edits

ROTARY_NAMES = {"gpt_neox": ("rotary_emb_base", "rotary_pct")}  # in place of rope_theta and partial_rotary_factor


def flat_rope(config: dict):
    """Replaces rope_parameters by rope_theta, partial_rotary_factor and rope_scaling at the top level."""
    rope = config.pop("rope_parameters", None)
    if rope is None:
        return
    if "full_attention" in rope:
        return nested_rope(config, rope)
    theta, partial = ROTARY_NAMES.get(config["model_type"], ("rope_theta", "partial_rotary_factor"))
    config[theta] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config[partial] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    if "original_max_position_embeddings" in config:
        rope.pop("original_max_position_embeddings", None)
    key = "rope_type" if config["model_type"] == "gpt_oss" or kind == "llama3" else "type"
    config["rope_scaling"] = None if kind == "default" else {key: kind} | rope


def nested_rope(config: dict, rope: dict):
    full, sliding = rope["full_attention"], rope["sliding_attention"]
    if config["model_type"] == "modernbert":
        config["global_rope_theta"], config["local_rope_theta"] = full["rope_theta"], sliding["rope_theta"]
        return
    config["rope_theta"], config["rope_local_base_freq"] = full.pop("rope_theta"), sliding["rope_theta"]
    config["rope_scaling"] = None if full["rope_type"] == "default" else full


def period(layer_types: list, kind: str) -> int:
    """Returns the interval between layers of `kind`; a number above the number of layers if there is only the first."""
    places = [i for i, t in enumerate(layer_types) if t == kind]
    return places[1] - places[0] if len(places) > 1 else len(layer_types) + 1


def version4(config: dict) -> dict:
    """The keys of transformers 4."""
    types, kind = config.pop("layer_types", None), config["model_type"]
    if kind == "modernbert":
        config["global_attn_every_n_layers"] = period(types, "full_attention")
    if kind == "gemma3_text":
        config["sliding_window_pattern"] = types.index("full_attention") + 1 if "full_attention" in types else 6
        config.pop("_sliding_window_pattern", None)
    if kind == "gpt_oss":
        config["layer_types"] = types  # the earliest version with this family
    flat_rope(config)
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    config = STALE_KEYS.get(kind, {}) | CONFIG_EDITS.get(kind, lambda c: c)(config)
    return config | {"transformers_version": "4.38.0"}


def renamed_keys(*pairs):
    def edit(config: dict) -> dict:
        for new, old in pairs:
            if new in config:
                config[old] = config.pop(new)
        return config

    return edit


def without_keys(*names):
    return lambda config: {k: v for k, v in config.items() if k not in names}


def without_defaults(**defaults):
    """Removes keys that the first files did not have, if they hold the default."""
    return lambda config: {k: v for k, v in config.items() if k not in defaults or v != defaults[k]}


def old_bloom(config: dict) -> dict:
    config = renamed_keys(("hidden_size", "n_embed"), ("n_head", "num_attention_heads"))(config)
    return config | {"attention_softmax_in_fp32": True}


def old_falcon(config: dict) -> dict:
    width = 4 * config["hidden_size"]
    config = without_defaults(ffn_hidden_size=width, activation="gelu", num_ln_in_parallel_attn=None)(config)
    if not config["new_decoder_architecture"]:
        del config["num_kv_heads"]
    return config


def old_mpt(config: dict) -> dict:
    own = config["attn_config"]
    kept = ("alibi", "alibi_bias_max", "attn_type", "clip_qkv", "softmax_scale", "qk_ln", "prefix_lm", "attn_pdrop")
    return config | {"attn_config": {k: own[k] for k in kept}, "norm_type": "low_precision_layernorm", "verbose": 0}


def old_gemma(config: dict) -> dict:
    return config | {"hidden_act": "gelu", "hidden_activation": None}


def old_t5(config: dict) -> dict:
    """Version 5 always writes tie_word_embeddings true; this restores the value of scale_decoder_outputs."""
    scaled = config.pop("scale_decoder_outputs", True)
    for key in ("dense_act_fn", "is_gated_act"):
        config.pop(key, None)
    return config | {"tie_word_embeddings": scaled}


def old_deberta(config: dict) -> dict:
    if isinstance(config.get("pos_att_type"), list):
        config["pos_att_type"] = "|".join(config["pos_att_type"])
    return without_keys("legacy")(config)


def first_bart_keys(**more):
    """Adds the keys of early BART-like configs for choices that the class fixes today."""

    def edit(config: dict) -> dict:
        said = dict(add_bias_logits=False, normalize_before=False, normalize_embedding=True, add_final_layer_norm=False,
                    static_position_embeddings=False, num_hidden_layers=config["encoder_layers"])  # fmt: skip
        return config | said | more

    return edit


CONFIG_EDITS = {
    "bart": first_bart_keys(),
    "mbart": first_bart_keys(normalize_before=True, add_final_layer_norm=True),
    "marian": first_bart_keys(normalize_embedding=False, static_position_embeddings=True),
    "pegasus": first_bart_keys(normalize_embedding=False, normalize_before=True, add_final_layer_norm=True,
                               static_position_embeddings=True),
    "bloom": old_bloom,
    "falcon": old_falcon,
    "mpt": old_mpt,
    "gemma": old_gemma,
    "gpt_oss": without_defaults(swiglu_alpha=1.702),
    "gpt_neox": without_defaults(attention_bias=True, is_decoder=False),
    "gpt_bigcode": without_keys("num_key_value_heads"),
    "t5": old_t5,
    "deberta": old_deberta,
    "deberta-v2": old_deberta,
    "vit": without_keys("pooler_output_size", "pooler_act"),
    "smollm3": without_keys("no_rope_layer_interval"),
    "opt": without_defaults(enable_bias=True, layer_norm_elementwise_affine=True),
}


def unused_window(config: dict) -> dict:
    """Adds the width of a window that is switched off, as version 4 did."""
    return config if config["use_sliding_window"] else config | {"sliding_window": 4}


CONFIG_EDITS |= dict.fromkeys(("qwen2", "qwen3", "qwen2_moe"), unused_window)

# Keys of files on the hub that no program reads.
STALE_KEYS = {
    "gpt2": dict(n_ctx=1024, summary_type="cls_index", task_specific_params={"text-generation": {"max_length": 50}}),
    "gpt_neo": dict(gradient_checkpointing=False, tokenizer_class="GPT2Tokenizer"),
    "gptj": dict(rotary=True, scale_attn_weights=True, gradient_checkpointing=False),
    "codegen": dict(scale_attn_weights=True, summary_type="cls_index", n_ctx=2048),
    "bloom": dict(bias_dropout_fusion=True, masked_softmax_fusion=True, offset_alibi=100, seq_length=2048,
                  unk_token_id=0, skip_bias_add=True),
    "falcon": dict(apply_residual_connection_post_layernorm=False,
                   auto_map={"AutoConfig": "configuration_falcon.FalconConfig"}),
    "gpt_bigcode": dict(inference_runner=0, max_batch_size=None, pre_allocate_kv_cache=False,
                        validate_runner_input=True),
    "opt": dict(prefix="</s>", output_projection=True),
    "gemma2": dict(cache_implementation="hybrid", hidden_act="gelu_pytorch_tanh"),
    "gemma3_text": dict(cache_implementation="hybrid"),
    "nemotron": dict(rope_percent=0.5),
    "olmo": dict(pretraining_tp=1),
    "llama": dict(pretraining_tp=1),
    "phi3": dict(attention_bias=False),
    "albert": dict(down_scale_factor=1, gap_size=0, net_structure_type=0, num_memory_blocks=0),
    "bert": dict(position_embedding_type="absolute", gradient_checkpointing=False, pooler_type="first_token_transform"),
    "electra": dict(summary_activation="gelu", summary_use_proj=True, position_embedding_type="absolute"),
    "distilbert": dict(tie_weights_=True, seq_classif_dropout=0.2, qa_dropout=0.1),
    "modernbert": dict(reference_compile=None, repad_logits_with_grad=False),
    "t5": dict(n_positions=512, output_past=True, task_specific_params={"summarization": {"prefix": "summarize: "}}),
}  # fmt: skip


def layer_prefixes(tensors: dict, marker: str) -> list:
    """Returns the names up to `marker` for every layer."""
    return sorted({k[: k.index(marker)] for k in tensors if marker in k})


def causal_buffers(marker: str, name="bias", scalar="masked_bias", n=16):
    """Adds each layer's causal mask [1, 1, n, n] and the value of masked scores."""

    def edit(tensors: dict) -> dict:
        mask = torch.tril(torch.ones(1, 1, n, n, dtype=torch.uint8))
        extra = {}
        for prefix in layer_prefixes(tensors, marker):
            extra[f"{prefix}{name}"] = mask.clone()
            if scalar:
                extra[f"{prefix}{scalar}"] = torch.tensor(-1e9)
        return tensors | extra

    return edit


def rotary_buffers(marker: str, width=2):
    """Adds a rotary buffer with wrong values to each layer; readers must ignore it."""
    return lambda tensors: tensors | {
        f"{prefix}rotary_emb.inv_freq": torch.rand(width) for prefix in layer_prefixes(tensors, marker)
    }


def tied_twice(embedding: str, head="lm_head.weight"):
    """Stores the tied head a second time."""
    return lambda tensors: tensors if head in tensors else tensors | {head: tensors[embedding].clone()}


def copies(*pairs):
    """Adds the other names under which old files store a tensor."""
    return lambda tensors: tensors | {
        new: tensors[name].clone() for name, new in pairs if name in tensors and new not in tensors
    }


def esm_frequencies(tensors: dict) -> dict:
    """Version 4 stored the rotary frequencies in every layer, version 5 once, under a name with a star."""
    star = "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq"
    if star not in tensors:
        return tensors
    kept = {k: v for k, v in tensors.items() if k != star}
    places = layer_prefixes(kept, "self.query.weight")
    return kept | {f"{p}self.rotary_embeddings.inv_freq": tensors[star].clone() for p in places}


def stale_cross_bias(tensors: dict) -> dict:
    """Adds the unused relative bias of the cross-attention in the first T5 files."""
    name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return tensors | {name.replace("layer.0.SelfAttention", "layer.1.EncDecAttention"): torch.randn_like(tensors[name])}


def position_buffers(tensors: dict) -> dict:
    """Adds position_ids [1, n], a buffer that version 4 stored."""
    return tensors | {
        f"{prefix}position_ids": torch.arange(40)[None] for prefix in layer_prefixes(tensors, "word_embeddings.weight")
    }


def stored_sinusoids(tensors: dict) -> dict:
    """Adds the sinusoids of both stacks, as version 4 stored them, for the 40 positions of these models."""
    d, n = tensors["model.encoder.layers.0.fc1.weight"].shape[1], 40
    angles = torch.arange(n, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    table = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return tensors | {f"model.{stack}.embed_positions.weight": table.clone() for stack in ("encoder", "decoder")}


def own_t5_head(tensors: dict) -> dict:
    """T5 v1.1 and similar models have a separate output head, whatever tie_word_embeddings says."""
    return tensors | {"lm_head.weight": torch.randn_like(tensors["shared.weight"])}


EMBEDDINGS = "model.embed_tokens.weight"
T5_COPIES = copies(("shared.weight", "encoder.embed_tokens.weight"), ("shared.weight", "decoder.embed_tokens.weight"))
BART_COPIES = copies(
    ("model.shared.weight", "model.encoder.embed_tokens.weight"),
    ("model.shared.weight", "model.decoder.embed_tokens.weight"),
    ("model.shared.weight", "lm_head.weight"),
)
TENSOR_EDITS = {
    "bert": [edits.old_norm_names, position_buffers,
             copies(("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
                    ("cls.predictions.bias", "cls.predictions.decoder.bias"))],
    **{kind: [edits.old_norm_names, position_buffers,
              copies(("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
                     ("lm_head.bias", "lm_head.decoder.bias"))] for kind in ("roberta", "xlm-roberta")},
    "electra": [edits.old_norm_names, position_buffers],
    "albert": [edits.old_norm_names, position_buffers,
               copies(("albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"),
                      ("predictions.bias", "predictions.decoder.bias"))],
    "distilbert": [edits.old_norm_names, position_buffers,
                   copies(("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"))],
    "gpt2": [causal_buffers("attn.c_attn.weight", name="attn.bias", scalar="attn.masked_bias"),
             edits.without_prefix("transformer.")],
    "deberta": [edits.old_norm_names, position_buffers],
    "deberta-v2": [position_buffers],
    "mpnet": [position_buffers],
    "gpt_neo": [causal_buffers("attn.attention.", name="attn.attention.bias", scalar="attn.attention.masked_bias"),
                tied_twice("transformer.wte.weight")],
    "gptj": [causal_buffers("attn.q_proj", name="attn.bias", scalar="attn.masked_bias")],
    "codegen": [causal_buffers("attn.qkv_proj", name="attn.causal_mask", scalar="attn.masked_bias")],
    "gpt_neox": [causal_buffers("attention.query_key_value.weight", "attention.bias", "attention.masked_bias"),
                 rotary_buffers("query_key_value.weight")],
    "bloom": [edits.without_prefix("transformer.")],
    "falcon": [tied_twice("transformer.word_embeddings.weight")],
    "gpt_bigcode": [causal_buffers("attn.c_attn.weight", name="attn.bias", scalar=None),
                    tied_twice("transformer.wte.weight")],
    "opt": [tied_twice("model.decoder.embed_tokens.weight")],
    "phi": [rotary_buffers("q_proj.weight")],
    "gemma": [tied_twice(EMBEDDINGS)],
    "cohere": [rotary_buffers("q_proj.weight")],
    "esm": [edits.old_norm_names, esm_frequencies, position_buffers],
    "t5": [T5_COPIES, stale_cross_bias],
    "bart": [BART_COPIES],
    "mbart": [BART_COPIES],
    "marian": [BART_COPIES, stored_sinusoids],
    "pegasus": [BART_COPIES],
}  # fmt: skip


def rewritten(model_type: str) -> dict:
    """Returns the arguments of a case that is saved in the old layout."""
    return dict(edit_config=version4, edit_tensors=TENSOR_EDITS.get(model_type, []))


def old_longrope(config: dict) -> dict:
    """Uses the first name of longrope, next to which transformers 5 requires the original length."""
    config = version4(config)
    length = config["original_max_position_embeddings"]
    scaling = {"type": "su", "original_max_position_embeddings": length}
    return config | {"rope_scaling": config["rope_scaling"] | scaling}


def mxfp4_experts(tensors: dict) -> dict:
    """Stores experts in blocks of 32 values of four bits (low nibble first), each with a power of two as scale."""
    found = dict(tensors)
    for name, value in tensors.items():
        if name.endswith(("gate_up_proj", "down_proj")) and ".experts." in name:
            experts, rows, columns = value.shape  # [E, in, out]; blocks go along `in`
            shape = (experts, columns, rows // 32)
            del found[name]
            found[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
            found[f"{name}_scales"] = torch.randint(123, 127, shape, dtype=torch.uint8)
    return found


def mxfp4_config(config: dict) -> dict:
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    return version4(config) | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": kept}}


def packed_experts(tensors: dict) -> dict:
    """Stores the experts of a layer as one tensor each, as transformers 5 holds them in memory."""
    tensors = {k.replace(".block_sparse_moe.", ".mlp."): v for k, v in tensors.items()}
    names = {"w1.weight": "gate", "gate_proj.weight": "gate", "w3.weight": "up", "up_proj.weight": "up",
             "w2.weight": "down", "down_proj.weight": "down"}  # fmt: skip
    found, kept = {}, {}
    for name, value in tensors.items():
        layer, _, rest = name.partition(".mlp.experts.")
        if rest:
            number, _, part = rest.partition(".")
            found.setdefault(layer, {}).setdefault(names[part], {})[int(number)] = value
        else:
            kept[name] = value
    for layer, parts in found.items():
        gate, up, down = (torch.stack([parts[p][i] for i in range(len(parts[p]))]) for p in ("gate", "up", "down"))
        kept[f"{layer}.mlp.experts.gate_up_proj"] = torch.cat([gate, up], dim=1)
        kept[f"{layer}.mlp.experts.down_proj"] = down
    return kept


def renamed(*pairs):
    """Replaces parts of tensor names."""

    def edit(tensors: dict) -> dict:
        for old, new in pairs:
            tensors = {k.replace(old, new): v for k, v in tensors.items()}
        return tensors

    return edit
