#include "tokenizer/files/file_layouts.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/shown.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

Json template_pieces(const std::vector<TemplatePiece>& pieces) {
  Json list = Json::array();
  for (const TemplatePiece& piece : pieces) {
    const bool is_text = piece.piece == "$A" || piece.piece == "$B";
    list.push_back({{is_text ? "Sequence" : "SpecialToken",
                     {{"id", is_text ? piece.piece.substr(1) : piece.piece}, {"type_id", piece.type_id}}}});
  }
  return list;
}

}  // namespace

void check_class(const TokenizerConfig& config, std::string_view layout,
                 const std::vector<std::string_view>& supported) {
  if (!config.options().has("tokenizer_class")) return;
  const std::string found = config.options().string("tokenizer_class");
  std::string_view name = found;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (std::find(supported.begin(), supported.end(), name) != supported.end()) return;
  config.options().refuse(
      "tokenizer_class",
      fmt::format("unsupported {} with {} alone, supported: {}; tokenizer.json has no such "
                  "limit",
                  in_quotes(found), layout, fmt::join(supported, ", ")));
}

std::uint64_t id_of(const TokenizerFile& file, std::string_view token) {
  for (const PartConfig& added : file.document().objects("added_tokens")) {
    if (added.string("content") == token) return static_cast<std::uint64_t>(added.integer("id"));
  }
  return static_cast<std::uint64_t>(file.table->find(token));
}

Json make_template(const TokenizerFile& file, const std::vector<TemplatePiece>& single,
                   const std::vector<TemplatePiece>& pair) {
  Json tokens = Json::object();
  for (const TemplatePiece& piece : pair) {
    if (piece.piece == "$A" || piece.piece == "$B") continue;
    tokens[piece.piece] = {
        {"id", piece.piece}, {"ids", {id_of(file, piece.piece)}}, {"tokens", {piece.piece}}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", template_pieces(single)},
          {"pair", template_pieces(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json make_template(const TokenizerFile& file, const std::string& before, const std::string& after) {
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
  for (const unsigned text : {0U, 1U}) {
    if (!before.empty()) pair.push_back({before, text});
    pair.push_back({text == 0 ? "$A" : "$B", text});
    if (!after.empty()) pair.push_back({after, text});
    if (text == 0) single = pair;
  }
  return make_template(file, single, pair);
}

}  // namespace attnctl
