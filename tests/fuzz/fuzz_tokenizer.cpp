#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/token_model.hpp"

// The bytes are a tokenizer.json. Its model tokenizes its own tokens and others; the tokens must lie inside
// of the piece in ascending order.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  try {
    tokenizer::TokenizerFile file =
        tokenizer::parse_tokenizer_json("fuzz", {reinterpret_cast<const char*>(data), size});
    tokenizer::check_vocabulary(file);
    (void)tokenizer::make_vocabulary(file);
    std::vector<std::string> pieces = {"a", "the quick \u00e9\u2581\U0001F600", std::string(200, 'a')};
    for (const tokenizer::TokenEntry& entry : file.vocabulary) {
      if (!entry.token.empty() && pieces.size() < 50) pieces.push_back(entry.token + pieces.back());
    }
    const tokenizer::TokenModelPtr model = tokenizer::make_token_model(file);
    tokenizer::TokenModel::ModelState state;
    std::vector<tokenizer::PieceToken> tokens;
    for (const std::string& piece : pieces) {
      tokens.clear();
      model->tokenize(piece, state, tokens);
      std::uint32_t begin = 0;
      for (const tokenizer::PieceToken& token : tokens) {
        if (token.id < 0 || token.begin < begin || token.end <= token.begin || token.end > piece.size()) {
          std::abort();
        }
        begin = token.begin;
      }
    }
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
  return 0;
}
