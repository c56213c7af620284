#include <string>
#include <vector>

#include "tokenize.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/token_model.hpp"

// The bytes are a tokenizer.json. Its model also tokenizes its own tokens: tokens must lie inside of the
// piece in ascending order.
ATTNCTL_FUZZ_TARGET(tokenizer) {
  using namespace attnctl;
  static const fuzz::Folder folder;
  folder.put("tokenizer.json", bytes);
  fuzz::attempt([&] { fuzz::tokenize({folder.path()}); });

  tokenizer::TokenizerFile file = tokenizer::parse_tokenizer_json("fuzz", bytes);
  tokenizer::check_vocabulary(file);
  std::vector<std::string> pieces = {std::string(200, 'a')};
  for (const tokenizer::TokenEntry& entry : file.vocabulary) {
    if (!entry.token.empty() && pieces.size() < 10) pieces.push_back(entry.token + pieces.back());
  }
  const tokenizer::TokenModelPtr model = tokenizer::make_token_model(file);
  tokenizer::TokenModel::ModelState state;
  std::vector<tokenizer::PieceToken> tokens;
  for (const std::string& piece : pieces) {
    tokens.clear();
    model->tokenize(piece, state, tokens);
    std::uint32_t begin = 0;
    for (const tokenizer::PieceToken& token : tokens) {
      fuzz::require(
          token.id >= 0 && token.begin >= begin && token.end > token.begin && token.end <= piece.size(),
          "tokens lie inside of the piece, in order");
      begin = token.begin;
    }
  }
}
