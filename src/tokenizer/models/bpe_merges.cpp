#include "tokenizer/models/bpe_merges.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/shown.hpp"

namespace attnctl {
namespace {

[[noreturn]] void refuse(const TokenizerFile& file, std::size_t index, std::string_view what) {
  PartConfig(file.name, fmt::format("/model/merges/{}", index), file.parts).refuse("", what);
}

}  // namespace

MergeTable read_merges(const TokenizerFile& file, const TokenTable& vocabulary, std::size_t prefix) {
  MergeTable table(file.merges.size());
  const auto id_of = [&](std::size_t index, std::string_view token) {
    if (token.size() > vocabulary.longest()) {
      refuse(file, index,
             fmt::format("got {} of {} bytes, need a token of the vocabulary, whose longest has {}",
                         in_quotes(token), token.size(), vocabulary.longest()));
    }
    const std::int32_t id = vocabulary.find(token);
    if (id < 0) {
      refuse(file, index, fmt::format("got {}, need a token of the vocabulary", in_quotes(token)));
    }
    return id;
  };
  std::string whole;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto [left, right] = file.merges[i];
    const std::int32_t left_id = id_of(i, left);
    const std::int32_t right_id = id_of(i, right);
    if (right.size() < prefix) {
      refuse(file, i, fmt::format("got {}, need a token with continuing_subword_prefix", in_quotes(right)));
    }
    whole.assign(left).append(right, prefix, std::string::npos);
    table.put(left_id, right_id, {static_cast<std::uint32_t>(i), id_of(i, whole)});
  }
  return table;
}

void check_no_dropout(const PartConfig& model) {
  if (!model.has("dropout")) return;
  const PartConfig dropout = model.at("dropout");
  if (!dropout.node().is_number() || dropout.node().get<double>() != 0) {
    model.refuse("dropout", fmt::format("unsupported {}, supported: null, 0", dropout.node().dump()));
  }
}

}  // namespace attnctl
