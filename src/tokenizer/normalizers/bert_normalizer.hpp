#pragma once

#include "tokenizer/normalizers/normalizer.hpp"

namespace attnctl {

/// BertNormalizer: clean_text, handle_chinese_chars, strip_accents, lowercase, in this order.
[[nodiscard]] NormalizerPtr make_bert_normalizer(const PartConfig& config);

}  // namespace attnctl
