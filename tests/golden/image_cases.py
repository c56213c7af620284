"""Cases of image models, and of the text part of multimodal models."""
import block_cases
from model_case import ModelCase
from old_layouts import renamed, version4

VIT = dict(hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22, image_size=12,
           patch_size=4, num_channels=3)  # fmt: skip
NATIVE_VIT = renamed(
    ("encoder.layer.", "layers."), ("attention.attention.query", "attention.q_proj"),
    ("attention.attention.key", "attention.k_proj"), ("attention.attention.value", "attention.v_proj"),
    ("attention.output.dense", "attention.o_proj"), ("intermediate.dense", "mlp.fc1"), ("output.dense", "mlp.fc2"),
)  # fmt: skip
SMALL_VISION = dict(hidden_size=8, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                    patch_size=4)  # fmt: skip
LLAVA = dict(
    vision_config=SMALL_VISION | dict(model_type="clip_vision_model", projection_dim=8), image_token_index=36,
    text_config=block_cases.LLAMA | dict(model_type="llama"),
)  # fmt: skip
GEMMA3 = dict(
    vision_config=SMALL_VISION | dict(model_type="siglip_vision_model", vision_use_head=False), mm_tokens_per_image=4,
    text_config=block_cases.GEMMA3 | dict(
        model_type="gemma3_text", layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
    boi_token_index=34, eoi_token_index=35, image_token_index=36,
)  # fmt: skip
NATIVE_TOWER = renamed(("language_model.model.", "model.language_model."), ("language_model.lm_head.", "lm_head."),
                       ("vision_tower.", "model.vision_tower."), ("multi_modal", "model.multi_modal"))  # fmt: skip


def version4_tower(config: dict) -> dict:
    """Uses the keys of transformers 4 in the text's config too."""
    return version4(config) | {"text_config": version4(config["text_config"])}


CASES = [
    ModelCase("vit", "ViTModel", VIT, images=2, dtype="float16"),
    ModelCase("vit-old", "ViTForImageClassification", VIT | dict(hidden_act="gelu_new", qkv_bias=False, patch_size=6),
              images=1, dtype="float16", edit_config=version4, read_as="ViTModel"),
    ModelCase("vit-native", "ViTModel", VIT | dict(num_channels=1), images=1, dtype="float16",
              edit_tensors=[NATIVE_VIT]),
    ModelCase("llava-tower", "LlavaForConditionalGeneration", LLAVA, lengths=(2, 9), dtype="float16", vocabulary=34),
    ModelCase("llava-tower-old", "LlavaForConditionalGeneration", LLAVA, lengths=(9,), dtype="float16", vocabulary=34,
              edit_config=version4_tower),
    ModelCase("llava-tower-native", "LlavaForConditionalGeneration", LLAVA, lengths=(9,), dtype="float16",
              vocabulary=34, edit_tensors=[NATIVE_TOWER]),
    ModelCase("gemma3-tower", "Gemma3ForConditionalGeneration", GEMMA3, lengths=(9,), dtype="float16", vocabulary=34),
    ModelCase("gemma3-tower-old", "Gemma3ForConditionalGeneration", GEMMA3, lengths=(9,), dtype="float16",
              vocabulary=34, edit_config=version4_tower),
]  # fmt: skip
