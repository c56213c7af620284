"""Draws random configurations of every family: sizes, and each option in its row of the table.

DRAWS: name -> function of a Draw that returns (class in transformers, keys of its config).
"""
import numpy as np

HEADS = ((3, 1), (4, 2), (5, 5), (6, 3), (6, 2), (2, 2), (8, 4), (7, 1))  # query heads, key/value heads
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh")


class Draw:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 3)

    def act(self) -> str:
        return self.pick(*ACTIVATIONS)

    def heads(self) -> tuple[int, int]:
        return self.pick(*HEADS)


def bert(r: Draw):
    h, _ = r.heads()
    return "BertForMaskedLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * r.size(3, 9), num_hidden_layers=r.size(2, 4), num_attention_heads=h,
        intermediate_size=r.size(13, 50), max_position_embeddings=40, type_vocab_size=r.size(1, 3), hidden_act=r.act(),
        layer_norm_eps=r.pick(1e-12, 1e-5), pad_token_id=r.size(0, 3),
    )  # fmt: skip


def roberta(r: Draw):
    return "RobertaForMaskedLM", bert(r)[1] | dict(max_position_embeddings=50)


def xlm_roberta(r: Draw):
    return "XLMRobertaForMaskedLM", bert(r)[1] | dict(max_position_embeddings=50)


def electra(r: Draw):
    config = bert(r)[1]
    width = config["hidden_size"] if r.flag() else r.size(5, 30)
    return "ElectraForMaskedLM", config | dict(embedding_size=width)


def distilbert(r: Draw):
    h, _ = r.heads()
    return "DistilBertForMaskedLM", dict(
        vocab_size=r.size(40, 90), dim=h * r.size(3, 9), n_layers=r.size(2, 4), n_heads=h, hidden_dim=r.size(13, 50),
        max_position_embeddings=40, activation=r.pick("gelu", "relu"), sinusoidal_pos_embds=r.flag(),
    )  # fmt: skip


def albert(r: Draw):
    config = bert(r)[1]
    layers = r.size(2, 6)
    return "AlbertForMaskedLM", config | dict(
        embedding_size=r.size(5, 30), num_hidden_layers=layers, num_hidden_groups=r.size(1, layers))  # fmt: skip


def deberta(r: Draw):
    return "DebertaForMaskedLM", bert(r)[1] | dict(
        relative_attention=r.pick(True, True, True, False), pos_att_type=r.pick(["c2p", "p2c"], ["c2p"], ["p2c"]),
        position_biased_input=r.flag(), type_vocab_size=r.pick(0, 2), max_relative_positions=r.pick(-1, 7, 20),
        pad_token_id=0,
    )  # fmt: skip


def deberta_v2(r: Draw):
    return "DebertaV2ForMaskedLM", deberta(r)[1] | dict(
        position_buckets=r.pick(-1, 6, 8, 16), max_relative_positions=r.pick(-1, 30, 64), share_att_key=r.flag(),
        norm_rel_ebd=r.pick("none", "layer_norm"), conv_kernel_size=r.pick(0, 3, 5), conv_act=r.pick("tanh", "gelu"),
    )  # fmt: skip


def mpnet(r: Draw):
    config = bert(r)[1]
    del config["type_vocab_size"], config["pad_token_id"]
    return "MPNetForMaskedLM", config | dict(max_position_embeddings=50)


def esm(r: Draw):
    h, _ = r.heads()
    return "EsmForMaskedLM", bert(r)[1] | dict(
        position_embedding_type=r.pick("rotary", "rotary", "absolute"), emb_layer_norm_before=r.flag(),
        num_attention_heads=h, hidden_size=h * 2 * r.size(2, 4), token_dropout=r.flag(), mask_token_id=r.size(4, 30),
        max_position_embeddings=50, pad_token_id=1, hidden_act="gelu", rope_theta=r.pick(10000.0, 500.0),
    )  # fmt: skip


def modernbert(r: Draw):
    h, _ = r.heads()
    layers = r.size(3, 7)
    return "ModernBertForMaskedLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * 2 * r.size(2, 5), num_hidden_layers=layers, num_attention_heads=h,
        intermediate_size=r.size(13, 40), max_position_embeddings=60, local_attention=r.pick(4, 6, 10),
        norm_bias=r.flag(), attention_bias=r.flag(), mlp_bias=r.flag(), norm_eps=r.pick(1e-5, 1e-3),
        hidden_activation=r.act(), classifier_bias=r.flag(), classifier_activation=r.act(), decoder_bias=r.flag(),
        pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=r.pick(160000.0, 900.0)),
                             sliding_attention=dict(rope_type="default", rope_theta=r.pick(10000.0, 70.0))),
    )  # fmt: skip


def gpt2(r: Draw, model: str = "GPT2LMHeadModel"):
    h, _ = r.heads()
    return model, dict(
        vocab_size=r.size(40, 90), n_embd=h * r.size(3, 9), n_layer=r.size(2, 4), n_head=h, n_positions=40,
        n_inner=r.pick(None, r.size(13, 50)), activation_function=r.act(), layer_norm_epsilon=r.pick(1e-5, 1e-3),
        scale_attn_weights=r.pick(True, True, False), scale_attn_by_inverse_layer_idx=r.flag(),
        reorder_and_upcast_attn=r.flag(), tie_word_embeddings=r.flag(),
    )  # fmt: skip


def gpt_bigcode(r: Draw):
    config = gpt2(r)[1] | dict(multi_query=r.flag())
    del config["scale_attn_by_inverse_layer_idx"], config["reorder_and_upcast_attn"]
    return "GPTBigCodeForCausalLM", config


def gpt_neo(r: Draw):
    h, _ = r.heads()
    kinds = r.pick([[["global", "local"], 2]], [[["local"], 2], [["global"], 1]], [[["global"], 2]])
    return "GPTNeoForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * r.size(3, 9), num_layers=sum(len(k) * n for k, n in kinds),
        num_heads=h, attention_types=kinds, intermediate_size=r.pick(None, r.size(13, 50)), window_size=r.size(3, 9),
        max_position_embeddings=40, activation_function=r.act(), layer_norm_epsilon=r.pick(1e-5, 1e-3),
    )  # fmt: skip


def gptj(r: Draw):
    h, _ = r.heads()
    k = 2 * r.size(3, 5)
    return "GPTJForCausalLM", dict(
        vocab_size=r.size(40, 90), n_embd=h * k, n_layer=r.size(2, 3), n_head=h, n_positions=40,
        n_inner=r.pick(None, r.size(13, 50)), rotary_dim=2 * r.size(1, k // 2), activation_function=r.act(),
    )  # fmt: skip


def codegen(r: Draw):
    config = gptj(r)[1]
    h = r.pick(4, 8)
    return "CodeGenForCausalLM", config | dict(n_head=h, n_embd=h * 8, rotary_dim=r.pick(2, 4, 6, 8))


def partial(r: Draw) -> dict:
    """Draws a rotated part of heads of width 8."""
    kind = r.pick(dict(rope_type="default"), dict(rope_type="default"), dict(rope_type="linear", factor=2.5))
    return kind | dict(rope_theta=r.pick(10000.0, 500.0), partial_rotary_factor=r.pick(0.25, 0.5, 0.75, 1.0))


def gpt_neox(r: Draw):
    h, _ = r.heads()
    return "GPTNeoXForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * 8, num_hidden_layers=r.size(2, 3), num_attention_heads=h,
        intermediate_size=r.size(13, 50), max_position_embeddings=40, hidden_act=r.act(), attention_bias=r.flag(),
        use_parallel_residual=r.flag(), rope_parameters=partial(r), tie_word_embeddings=r.pick(False, False, True),
        layer_norm_eps=r.pick(1e-5, 1e-3),
    )  # fmt: skip


def opt(r: Draw):
    h, _ = r.heads()
    d = h * r.size(3, 8)
    return "OPTForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=d, num_hidden_layers=r.size(2, 3), num_attention_heads=h,
        ffn_dim=r.size(13, 50), max_position_embeddings=40, word_embed_proj_dim=r.pick(d, d, r.size(7, 20)),
        do_layer_norm_before=r.flag(), enable_bias=r.flag(), layer_norm_elementwise_affine=r.flag(),
        activation_function=r.act(), _remove_final_layer_norm=r.pick(False, False, True),
        tie_word_embeddings=r.pick(True, True, False),
    )  # fmt: skip


def bloom(r: Draw):
    h, _ = r.heads()
    return "BloomForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * r.size(3, 8), n_layer=r.size(2, 3), n_head=h,
        apply_residual_connection_post_layernorm=r.flag(), layer_norm_epsilon=r.pick(1e-5, 1e-3),
    )  # fmt: skip


FALCON_SHAPES = (
    dict(multi_query=True, parallel_attn=True),
    dict(multi_query=False, parallel_attn=False, alibi=True, bias=True),
    dict(new_decoder_architecture=True),
    dict(new_decoder_architecture=True, num_ln_in_parallel_attn=1),
    dict(multi_query=True, parallel_attn=False),
    dict(multi_query=False, parallel_attn=True, bias=True),
)


def falcon(r: Draw, shape: int | None = None):
    h, g = r.heads()
    shape = FALCON_SHAPES[r.size(0, len(FALCON_SHAPES) - 1) if shape is None else shape]
    heads = dict(num_kv_heads=g) if "new_decoder_architecture" in shape else {}
    return "FalconForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * 2 * r.size(2, 5), num_hidden_layers=r.size(2, 3),
        num_attention_heads=h, ffn_hidden_size=r.pick(None, r.size(13, 50)), bias=r.flag(), activation=r.act(),
        tie_word_embeddings=r.flag(), max_position_embeddings=40, alibi=r.pick(False, False, True),
        rope_parameters=dict(rope_type="default", rope_theta=r.pick(10000.0, 500.0)),
    ) | shape | heads  # fmt: skip


def mpt(r: Draw):
    h, _ = r.heads()
    attention = dict(clip_qkv=r.pick(None, 1.3), softmax_scale=r.pick(None, 0.4), alibi_bias_max=r.pick(8, 8, 4))
    return "MptForCausalLM", dict(
        vocab_size=r.size(40, 90), d_model=h * r.size(3, 8), n_layers=r.size(2, 3), n_heads=h, max_seq_len=40,
        attn_config=attention, layer_norm_epsilon=r.pick(1e-5, 1e-3),
    )  # fmt: skip


def scaling(r: Draw, k: int, kind: str | None = None) -> dict:
    """Draws rope_parameters of any kind for heads of width k."""
    theta, original = dict(rope_theta=r.pick(10000.0, 500.0, 150000.0)), "original_max_position_embeddings"
    kind = kind or r.pick("default", "default", "linear", "llama3", "yarn")
    if kind == "linear":
        return theta | dict(rope_type="linear", factor=r.real(1.5, 6))
    if kind == "llama3":
        return theta | dict(rope_type="llama3", factor=r.real(2, 8), low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=r.pick(16, 32, 64))  # fmt: skip
    if kind == "yarn":
        more = r.pick({}, dict(attention_factor=1.2), dict(beta_fast=20.0, beta_slow=2.0), dict(truncate=False))
        return theta | {"rope_type": "yarn", "factor": r.real(2, 8), original: r.pick(32, 256)} | more
    if kind == "longrope":
        short, long = ([r.real(1, high) for _ in range(k // 2)] for high in (2, 6))
        return theta | {"rope_type": "longrope", "short_factor": short, "long_factor": long, original: 12}
    return theta | dict(rope_type="default")


def llama(r: Draw, model: str = "LlamaForCausalLM", own_width: bool = True, kind: str | None = None):
    h, g = r.heads()
    k = 2 * r.size(2, 6)
    own_width &= r.flag()
    return model, dict(
        vocab_size=r.size(40, 90), hidden_size=h * 2 * r.size(2, 5) if own_width else h * k,
        num_hidden_layers=r.size(2, 3), num_attention_heads=h, num_key_value_heads=g, intermediate_size=r.size(13, 50),
        max_position_embeddings=64, rms_norm_eps=r.pick(1e-6, 1e-5, 1e-3), tie_word_embeddings=r.flag(),
        hidden_act=r.pick("silu", "silu", "gelu_pytorch_tanh", "relu"), rope_parameters=scaling(r, k, kind),
    ) | (dict(head_dim=k) if own_width else {})  # fmt: skip


def llama_scaled(kind: str):
    def draw(r: Draw):
        model, config = llama(r, kind=kind)
        return model, config | dict(attention_bias=r.flag(), mlp_bias=r.flag())

    return draw


def mistral(r: Draw):
    return "MistralForCausalLM", llama(r)[1] | dict(sliding_window=r.pick(None, 5, 9))


def qwen2(r: Draw):
    config = llama(r, own_width=False)[1]
    return "Qwen2ForCausalLM", config | dict(
        use_sliding_window=r.flag(), sliding_window=r.size(3, 9), max_window_layers=r.size(0, 2))  # fmt: skip


def qwen3(r: Draw):
    config = llama(r)[1]
    width = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    return "Qwen3ForCausalLM", config | dict(
        head_dim=width, attention_bias=r.flag(), use_sliding_window=r.flag(), sliding_window=r.size(3, 9),
        max_window_layers=r.size(0, 2))  # fmt: skip


def with_width(config: dict) -> dict:
    return config | dict(head_dim=config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]))


def gemma(r: Draw):
    return "GemmaForCausalLM", with_width(llama(r, kind="default")[1]) | dict(
        hidden_act="gelu_pytorch_tanh", attention_bias=r.flag(), tie_word_embeddings=True)  # fmt: skip


def gemma2(r: Draw):
    config = with_width(llama(r, kind="default")[1])
    del config["hidden_act"]
    return "Gemma2ForCausalLM", config | dict(
        num_hidden_layers=r.size(2, 4), query_pre_attn_scalar=r.size(4, 40), sliding_window=r.size(3, 9),
        attn_logit_softcapping=r.pick(None, 1.5, 5.0), final_logit_softcapping=r.pick(None, 2.0, 10.0),
        attention_bias=r.flag(), tie_word_embeddings=True, hidden_activation=r.pick("gelu_pytorch_tanh", "gelu"),
    )  # fmt: skip


def gemma3_text(r: Draw):
    config = gemma2(r)[1]
    layers = r.size(2, 7)
    every = r.size(2, layers)
    return "Gemma3ForCausalLM", config | dict(
        num_hidden_layers=layers, attn_logit_softcapping=None, final_logit_softcapping=r.pick(None, 3.0),
        layer_types=["sliding_attention" if (i + 1) % every else "full_attention" for i in range(layers)],
        rope_parameters=dict(
            full_attention=r.pick(dict(rope_type="default", rope_theta=1e6),
                                  dict(rope_type="linear", rope_theta=5000.0, factor=8.0)),
            sliding_attention=dict(rope_type="default", rope_theta=r.pick(10000.0, 300.0))),
    )  # fmt: skip


def phi(r: Draw):
    h, g = r.heads()
    return "PhiForCausalLM", dict(
        vocab_size=r.size(40, 90), hidden_size=h * 8, num_hidden_layers=r.size(2, 3), num_attention_heads=h,
        num_key_value_heads=r.pick(None, g), intermediate_size=r.size(13, 50), max_position_embeddings=40,
        hidden_act=r.act(), qk_layernorm=r.flag(), rope_parameters=partial(r), layer_norm_eps=r.pick(1e-5, 1e-3),
    )  # fmt: skip


def phi3(r: Draw):
    config = llama(r, own_width=False, kind="default")[1] | dict(pad_token_id=0, sliding_window=r.pick(None, 5))
    k = config["hidden_size"] // config["num_attention_heads"]
    if r.flag():
        rope = scaling(r, k, "longrope")
        config["rope_parameters"] = {key: value for key, value in rope.items() if not key.startswith("original")}
        config["original_max_position_embeddings"] = 12
    return "Phi3ForCausalLM", config


def phi3_partial(r: Draw):
    h, g = r.heads()
    rope = partial(r)
    if r.flag():
        width = round(8 * rope["partial_rotary_factor"])
        rope = rope | scaling(r, width, "longrope")
        rope.pop("factor", None)
    return "Phi3ForCausalLM", phi3(r)[1] | dict(
        hidden_size=h * 8, num_attention_heads=h, num_key_value_heads=g, rope_parameters=rope,
        original_max_position_embeddings=12)  # fmt: skip


def olmo(r: Draw):
    config = llama(r, own_width=False)[1]
    del config["rms_norm_eps"]
    return "OlmoForCausalLM", config | dict(clip_qkv=r.pick(None, 1.1), attention_bias=r.flag())


def olmo2(r: Draw):
    return "Olmo2ForCausalLM", llama(r, own_width=False)[1] | dict(attention_bias=r.flag())


def stablelm(r: Draw):
    config = llama(r, own_width=False)[1]
    eps = config.pop("rms_norm_eps")
    return "StableLmForCausalLM", config | dict(
        hidden_size=config["num_attention_heads"] * 8, layer_norm_eps=eps, rope_parameters=partial(r),
        use_qkv_bias=r.flag(), qk_layernorm=r.flag(), use_parallel_residual=r.flag())  # fmt: skip


def starcoder2(r: Draw):
    config = llama(r, own_width=False)[1]
    eps = config.pop("rms_norm_eps")
    return "Starcoder2ForCausalLM", config | dict(
        norm_epsilon=eps, use_bias=r.flag(), sliding_window=r.pick(None, 5), hidden_act=r.act())  # fmt: skip


def cohere(r: Draw):
    config = llama(r, own_width=False, kind="default")[1]
    eps = config.pop("rms_norm_eps")
    return "CohereForCausalLM", config | dict(
        layer_norm_eps=eps, use_qk_norm=r.flag(), attention_bias=r.flag(), logit_scale=r.real(0.05, 1.5),
        tie_word_embeddings=True)  # fmt: skip


def granite(r: Draw):
    return "GraniteForCausalLM", llama(r, own_width=False)[1] | dict(
        embedding_multiplier=r.real(0.5, 12), residual_multiplier=r.real(0.1, 1.5), attention_bias=r.flag(),
        attention_multiplier=r.real(0.02, 0.6), logits_scaling=r.real(0.5, 8), mlp_bias=r.flag())  # fmt: skip


def smollm3(r: Draw):
    layers = r.size(2, 6)
    return "SmolLM3ForCausalLM", llama(r, own_width=False)[1] | dict(
        num_hidden_layers=layers, pad_token_id=0, attention_bias=r.flag(), mlp_bias=r.flag(),
        no_rope_layers=r.pick(None, [r.size(0, 1) for _ in range(layers)]), use_sliding_window=r.flag(),
        sliding_window=r.size(3, 9))  # fmt: skip


def nemotron(r: Draw):
    config = llama(r, own_width=False)[1]
    eps = config.pop("rms_norm_eps")
    return "NemotronForCausalLM", config | dict(
        hidden_size=config["num_attention_heads"] * r.pick(6, 8), head_dim=8, norm_eps=eps, rope_parameters=partial(r),
        attention_bias=r.flag(), mlp_bias=r.flag(), hidden_act=r.pick("relu2", "relu2", "gelu"))  # fmt: skip


def mixtral(r: Draw):
    config = llama(r)[1]
    return "MixtralForCausalLM", config | dict(
        num_local_experts=r.size(3, 7), num_experts_per_tok=r.size(1, 3), sliding_window=r.pick(None, 5))  # fmt: skip


def qwen2_moe(r: Draw):
    layers = r.size(2, 4)
    return "Qwen2MoeForCausalLM", llama(r, own_width=False)[1] | dict(
        num_hidden_layers=layers, num_experts=r.size(3, 7), num_experts_per_tok=r.size(1, 3), qkv_bias=r.flag(),
        moe_intermediate_size=r.size(5, 17), shared_expert_intermediate_size=r.size(5, 17), norm_topk_prob=r.flag(),
        mlp_only_layers=r.pick([], [r.size(0, layers - 1)]), decoder_sparse_step=r.pick(1, 1, 2),
        use_sliding_window=r.flag(), sliding_window=r.size(3, 9), max_window_layers=r.size(0, 3))  # fmt: skip


def gpt_oss(r: Draw):
    config = with_width(llama(r, kind=r.pick("yarn", "yarn", "default"))[1])
    del config["hidden_act"]
    return "GptOssForCausalLM", config | dict(
        num_hidden_layers=r.size(2, 4), num_local_experts=r.size(3, 7), num_experts_per_tok=r.size(1, 3),
        sliding_window=r.size(3, 9), swiglu_limit=r.pick(7.0, 1.5), swiglu_alpha=r.pick(1.702, 1.2),
        attention_bias=r.pick(True, True, False),
    )  # fmt: skip


def gpt_oss_mxfp4(r: Draw):
    """Widths in whole blocks of 32."""
    return "GptOssForCausalLM", gpt_oss(r)[1] | dict(hidden_size=32 * r.size(1, 2), intermediate_size=32 * r.size(1, 2))


def t5(r: Draw):
    h, _ = r.heads()
    return "T5ForConditionalGeneration", dict(
        vocab_size=r.size(40, 90), d_model=r.size(11, 40), d_kv=r.size(3, 9), d_ff=r.size(13, 50),
        num_layers=r.size(1, 3), num_decoder_layers=r.size(1, 3), num_heads=h, decoder_start_token_id=0,
        feed_forward_proj=r.pick("relu", "gated-gelu", "gated-silu", "gelu_new"), tie_word_embeddings=r.flag(),
        relative_attention_num_buckets=r.pick(8, 12, 32), relative_attention_max_distance=r.pick(20, 24, 128),
        layer_norm_epsilon=r.pick(1e-6, 1e-3),
    )  # fmt: skip


def bart(r: Draw, model: str = "BartForConditionalGeneration"):
    h, _ = r.heads()
    other = r.pick(h, 2 if h % 2 == 0 else 1)
    return model, dict(
        vocab_size=r.size(40, 90), d_model=h * 2 * r.size(2, 5), encoder_layers=r.size(1, 3),
        decoder_layers=r.size(1, 3), encoder_attention_heads=h, decoder_attention_heads=other,
        encoder_ffn_dim=r.size(13, 50),
        decoder_ffn_dim=r.size(13, 50), max_position_embeddings=40, activation_function=r.act(),
        scale_embedding=r.flag(), decoder_start_token_id=2, pad_token_id=1,
    )  # fmt: skip


def mbart(r: Draw):
    return bart(r, "MBartForConditionalGeneration")


def pegasus(r: Draw):
    model, config = bart(r, "PegasusForConditionalGeneration")
    return model, config | dict(pad_token_id=0, decoder_start_token_id=0)


def marian(r: Draw):
    model, config = bart(r, "MarianMTModel")
    last = config["vocab_size"] - 1
    return model, config | dict(decoder_vocab_size=last + 1, pad_token_id=last, decoder_start_token_id=last,
                                eos_token_id=0, forced_eos_token_id=0)  # fmt: skip


def marian_unshared(r: Draw):
    """Separate vocabularies for encoder and decoder."""
    model, config = marian(r)
    return model, config | dict(decoder_vocab_size=config["vocab_size"] + 3, share_encoder_decoder_embeddings=False)


def vit(r: Draw):
    h, _ = r.heads()
    patch = r.pick(2, 4, 5)
    return r.pick("ViTModel", "ViTForImageClassification"), dict(
        hidden_size=h * r.size(3, 8), num_hidden_layers=r.size(2, 3), num_attention_heads=h, num_channels=r.pick(1, 3),
        intermediate_size=r.size(13, 50), image_size=patch * r.size(2, 5), patch_size=patch, qkv_bias=r.flag(),
        hidden_act=r.act(), layer_norm_eps=r.pick(1e-12, 1e-5),
    )  # fmt: skip


SMALL_VISION = dict(hidden_size=8, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                    patch_size=4)  # fmt: skip


def tower(r: Draw):
    family = r.pick("llama", "mistral", "qwen2")
    text = {"llama": llama, "mistral": mistral, "qwen2": qwen2}[family](r)[1] | dict(model_type=family)
    return "LlavaForConditionalGeneration", dict(
        vision_config=SMALL_VISION | dict(model_type="clip_vision_model", projection_dim=8), text_config=text,
        image_token_index=text["vocab_size"] - 1, tie_word_embeddings=text["tie_word_embeddings"])  # fmt: skip


def gemma3_tower(r: Draw):
    # The larger model does not apply the cap of the logits that the text model's class applies, so there is none here.
    text = gemma3_text(r)[1] | dict(model_type="gemma3_text", final_logit_softcapping=None)
    last = text["vocab_size"] - 1
    return "Gemma3ForConditionalGeneration", dict(
        vision_config=SMALL_VISION | dict(model_type="siglip_vision_model", vision_use_head=False),
        mm_tokens_per_image=4, text_config=text, boi_token_index=last - 2, eoi_token_index=last - 1,
        image_token_index=last)  # fmt: skip


def falcon_shape(shape: int):
    return lambda r: falcon(r, shape)


DRAWS = dict(
    gpt_neox=gpt_neox, gptj=gptj, codegen=codegen, gpt_neo=gpt_neo, opt=opt, bloom=bloom, falcon=falcon_shape(0),
    falcon_rw=falcon_shape(1), falcon_40b=falcon_shape(2), falcon_11b=falcon_shape(3), falcon_odd=falcon_shape(4),
    falcon_heads=falcon_shape(5), gpt_bigcode=gpt_bigcode, mpt=mpt, gemma=gemma, gemma2=gemma2, gemma3_text=gemma3_text,
    phi=phi, phi3=phi3, phi3_partial=phi3_partial, olmo=olmo, olmo2=olmo2, stablelm=stablelm, starcoder2=starcoder2,
    cohere=cohere, granite=granite, smollm3=smollm3, nemotron=nemotron, mixtral=mixtral, qwen2_moe=qwen2_moe,
    gpt_oss=gpt_oss, gpt_oss_mxfp4=gpt_oss_mxfp4, gpt2=gpt2, llama=llama_scaled("default"),
    llama_linear=llama_scaled("linear"),
    llama_llama3=llama_scaled("llama3"), llama_yarn=llama_scaled("yarn"), llama_longrope=llama_scaled("longrope"),
    mistral=mistral, qwen2=qwen2, qwen3=qwen3, bert=bert, roberta=roberta, xlm_roberta=xlm_roberta, electra=electra,
    distilbert=distilbert, albert=albert, deberta=deberta, deberta_v2=deberta_v2, mpnet=mpnet, esm=esm,
    modernbert=modernbert, t5=t5, bart=bart, mbart=mbart, pegasus=pegasus, marian=marian, vit=vit, tower=tower,
    gemma3_tower=gemma3_tower, marian_unshared=marian_unshared,
)  # fmt: skip
