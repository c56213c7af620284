#include "tokenizer/parts/parts.hpp"

namespace attnctl::tokenizer {
namespace {

/// Returns whether a word character is directly before or directly after bytes [begin, end).
bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && unicode::is(unicode::previous(text, begin), unicode::word)) ||
         (end < text.size() && unicode::is(unicode::next(text, end), unicode::word));
}

/// Cuts a piece at the tokens of `trie`, whose ids are indices in `tokens`. `empty` is a token with empty
/// normalized content, which matches everywhere, or has the id -1.
void cut_piece(std::string_view text, const TokenTrie& trie, TokenTrie::TokenMatch empty,
               const std::vector<AddedToken>& tokens, PieceText::Cuts& cuts) {
  std::size_t done = 0;
  std::size_t matched = std::string_view::npos;  // end of the last match; npos: none yet
  for (std::size_t place = 0; place <= text.size();) {
    // Skips bytes with which no token begins.
    while (empty.id < 0 && place < text.size() &&
           trie.step(TokenTrie::kRoot, text[place]) == TokenTrie::kNowhere) {
      ++place;
    }
    TokenTrie::TokenMatch found = trie.longest(text.substr(place));
    if (found.id < 0) found = empty;
    if (found.id < 0) {
      ++place;
      continue;
    }
    const AddedToken& token = tokens[static_cast<std::size_t>(found.id)];
    std::size_t begin = place;
    std::size_t end = place + found.size;
    if (begin == end && begin == matched) {  // an empty match directly after a match is skipped
      if (place == text.size()) break;
      unicode::next(text, place);
      continue;
    }
    // The search continues after the token's content. This is so even if the match is rejected below, or if
    // the token also takes white space after it.
    place = matched = end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    // White space that belongs to the previous token does not also belong to this token.
    if (token.lstrip) begin = std::max(unicode::white_space_begin(text, begin, done), done);
    if (token.rstrip) end = unicode::white_space_end(text, end);
    if (end < begin) continue;  // Hugging Face tokenizers crash in this case
    if (done < begin) cuts.add(done, begin);
    cuts.add(begin, end, token.id);
    done = end;
  }
  if (done < text.size()) cuts.add(done, text.size());
}

}  // namespace

TextStep make_added_tokens(const std::vector<AddedToken>& tokens, bool are_normalized,
                           const TextStep& normalizer) {
  std::vector<TokenEntry> contents;
  TokenTrie::TokenMatch empty;
  std::size_t before = 0;
  std::size_t after = 0;
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (tokens[i].normalized != are_normalized) continue;
    contents.push_back({tokens[i].content, static_cast<std::int32_t>(i)});
    if (are_normalized && normalizer) {
      PieceText text;
      text.assign(tokens[i].content);
      normalizer(text);
      contents.back().token = text.text();
      before += tokens[i].content.size();
      after += text.text().size() + text.work();
      if (after > PieceText::largest_size(before)) {
        fail(Status::limit,
             "added tokens: the normalizer processes more than {} bytes for tokens of {} bytes; check its "
             "steps",
             PieceText::largest_size(before), before);
      }
    }
    if (contents.back().token.empty()) empty.id = contents.back().id;
  }
  if (contents.empty()) return [](PieceText& /*text*/) {};
  return [tokens, trie = TokenTrie(contents, TokenTable(contents)), empty](PieceText& text) {
    text.cut(
        [&](std::string_view piece, PieceText::Cuts& cuts) { cut_piece(piece, trie, empty, tokens, cuts); });
  };
}

}  // namespace attnctl::tokenizer
