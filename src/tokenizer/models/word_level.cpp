#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/models.hpp"

namespace attnctl {
namespace {

class WordLevel final : public TokenModel {
 public:
  WordLevel(TokenizerFile& file, std::string unk)
      : vocabulary_(std::move(*file.table)), unk_(file, std::move(unk), vocabulary_) {}

  [[nodiscard]] std::unique_ptr<State> make_state() const override { return std::make_unique<State>(); }
  [[nodiscard]] std::optional<std::int32_t> id(std::string_view token) const override {
    return vocabulary_.id(token);
  }
  void tokenize(std::string_view piece, State& /*state*/, std::vector<PieceToken>& tokens) const override {
    const std::int32_t known = vocabulary_.find(piece);
    tokens.push_back({known < 0 ? unk_.id() : known, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  TokenTable vocabulary_;
  UnknownToken unk_;
};

}  // namespace

TokenModelPtr make_word_level(TokenizerFile& file, const PartConfig& model) {
  return std::make_unique<WordLevel>(file, model.string("unk_token"));
}

}  // namespace attnctl
