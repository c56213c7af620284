#include "tokenize.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

ATTNCTL_FUZZ_TARGET(sentencepiece) {
  using namespace attnctl;
  static const fuzz::Folder folder;
  fuzz::require(!tokenizer::parse_sentencepiece("fuzz", bytes).pieces.empty(), "a model has pieces");
  folder.put("tokenizer.model", bytes);
  fuzz::tokenize({folder.path()});
}
