#include "cli/commands/token_output.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "formats/json.hpp"
#include "report/json.hpp"
#include "report/number_format.hpp"
#include "report/text.hpp"

namespace attnctl::cli {
namespace {

constexpr std::string_view kCsvHeader = "input,position,token,id,begin,end,word,sequence_id\r\n";

void append_number(std::string& text, std::int64_t number) {
  NumberFormat().append(text, number);
}

std::string_view token_of(const Tokenizer& tokenizer, std::int64_t id) {
  return tokenizer.vocabulary().token(id).value_or(std::string_view());
}

/// Appends `, "name": [each(0), each(1), ...]`.
template <typename Each>
void append_list(std::string& text, std::string_view name, std::size_t count, Each&& each) {
  text += ", \"";
  text += name;
  text += "\": [";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    each(i);
  }
  text += ']';
}

/// Returns the text that a token covers.
std::string covered(const TokenizedText& tokenized, std::size_t token) {
  const bool second = tokenized.encoding.sequence[token] == 1 && tokenized.input.pair;
  std::string_view text = second ? *tokenized.input.pair : tokenized.input.text;
  const TextRange range = tokenized.encoding.offsets[token];
  std::string part;
  for (std::uint32_t place = 0; place < range.end && !text.empty(); ++place) {
    std::size_t length = 1;
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) ++length;
    if (place >= range.begin) part += text.substr(0, length);
    text.remove_prefix(length);
  }
  return part;
}

/// Converts a section of a tokenizer file to a value of a document.
Value value_of(const nlohmann::ordered_json& node) {
  if (node.is_object()) {
    Record record;
    for (const auto& [name, member] : node.items()) record.set(name, value_of(member));
    return record;
  }
  if (node.is_array()) {
    List list;
    for (const auto& member : node) list.push_back(value_of(member));
    return list;
  }
  if (node.is_string()) return node.get<std::string>();
  if (node.is_boolean()) return node.get<bool>();
  if (node.is_number_integer()) return node.get<std::int64_t>();
  if (node.is_number()) return node.get<double>();
  return {};
}

Value section_of(const std::string& path, const std::string& section) {
  return section.empty() ? Value() : value_of(parse_json(path, section));
}

}  // namespace

TokenOutput::TokenOutput(const Target& target, const Tokenizer& tokenizer, const std::string& path,
                         Session& session)
    : target_(target), tokenizer_(tokenizer), path_(path), session_(session) {
  if (target.format == Format::csv && target.table.empty()) {
    out_ = &folder_.emplace(target.path).open("tokens");
  } else {
    out_ = &file_.emplace(target.path);
  }
  const bool json = target.format == Format::json;
  if (!json && target.format != Format::jsonl) return;
  json_.emplace(*out_, json ? JsonStream::Style::document : JsonStream::Style::lines, "inputs", "input");
}

void TokenOutput::begin() {
  if (std::exchange(begun_, true)) return;
  if (!json_) {
    out_->write(target_.format == Format::csv ? std::string(kCsvHeader) : heading());
    return;
  }
  Record head;
  head.set("schema", "attnctl.tokens/1")
      .set("attnctl", tool_record(session_))
      .set("tokenizer", tokenizer_record());
  json_->begin(head);
}

Record TokenOutput::tokenizer_record() const {
  Record record;
  record.set("path", path_)
      .set("vocabulary", tokenizer_.vocabulary().size())
      .set("truncation", section_of(path_, tokenizer_.truncation()))
      .set("padding", section_of(path_, tokenizer_.padding()));
  return record;
}

std::string TokenOutput::heading() const {
  std::string text = fmt::format("{}: a vocabulary of {}\n", strong(escaped(path_), text_style(target_)),
                                 tokenizer_.vocabulary().size());
  const auto tell = [&](const char* name, const std::string& section) {
    if (!section.empty()) text += fmt::format("{} of its file is not applied: {}\n", name, escaped(section));
  };
  tell("truncation", tokenizer_.truncation());
  tell("padding", tokenizer_.padding());
  return text;
}

void TokenOutput::append(std::string& text, const TokenizedText& tokenized) const {
  switch (target_.format) {
    case Format::csv:
      return append_csv(text, tokenized);
    case Format::text:
      return append_table(text, tokenized);
    default:
      return append_json(text, tokenized);
  }
}

void TokenOutput::append_json(std::string& text, const TokenizedText& tokenized) const {
  const Encoding& encoding = tokenized.encoding;
  const std::size_t n = encoding.size();
  const auto string = [&](std::string_view name, std::string_view value) {
    text += name;
    append_json_string(text, value);
  };
  const auto number_or_null = [&](bool known, std::int64_t number) {
    known ? append_number(text, number) : void(text += "null");
  };
  json_->open_item(text);
  string("\"id\": ", tokenized.input.id);
  string(", \"text\": ", tokenized.input.text);
  if (tokenized.input.pair) string(", \"text_pair\": ", *tokenized.input.pair);
  append_list(text, "tokens", n,
              [&](std::size_t i) { append_json_string(text, token_of(tokenizer_, encoding.ids[i])); });
  append_list(text, "ids", n, [&](std::size_t i) { append_number(text, encoding.ids[i]); });
  append_list(text, "offsets", n, [&](std::size_t i) {
    text += '[';
    append_number(text, encoding.offsets[i].begin);
    text += ", ";
    append_number(text, encoding.offsets[i].end);
    text += ']';
  });
  append_list(text, "words", n, [&](std::size_t i) {
    number_or_null(encoding.words[i].has_value(), encoding.words[i].value_or(0));
  });
  if (tokenized.input.pair) {
    append_list(text, "token_type_ids", n, [&](std::size_t i) { append_number(text, encoding.type_ids[i]); });
    append_list(text, "sequence_ids", n,
                [&](std::size_t i) { number_or_null(encoding.special[i] == 0, encoding.sequence[i]); });
  }
  json_->close_item(text);
}

void TokenOutput::append_csv(std::string& text, const TokenizedText& tokenized) const {
  const Encoding& encoding = tokenized.encoding;
  std::string input;
  append_csv_text(input, tokenized.input.id);
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    text += input;
    text += ',';
    append_number(text, static_cast<std::int64_t>(i));
    text += ',';
    append_csv_text(text, token_of(tokenizer_, encoding.ids[i]));
    for (const std::int64_t number :
         {encoding.ids[i], std::int64_t{encoding.offsets[i].begin}, std::int64_t{encoding.offsets[i].end}}) {
      text += ',';
      append_number(text, number);
    }
    text += ',';
    if (encoding.words[i]) append_number(text, *encoding.words[i]);
    text += ',';
    if (encoding.special[i] == 0) append_number(text, encoding.sequence[i]);
    text += "\r\n";
  }
}

void TokenOutput::append_table(std::string& text, const TokenizedText& tokenized) const {
  const Encoding& encoding = tokenized.encoding;
  const TextOptions style = text_style(target_);
  std::string title =
      fmt::format("input \"{}\": {}", escaped(tokenized.input.id), escaped(tokenized.input.text));
  if (tokenized.input.pair) title += fmt::format(" | {}", escaped(*tokenized.input.pair));
  text += fmt::format("\n{}\n", strong(title, style));
  if (encoding.size() == 0) {
    text += "no tokens\n";
    return;
  }
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    rows.push_back(
        {static_cast<std::int64_t>(i), std::string(token_of(tokenizer_, encoding.ids[i])), encoding.ids[i],
         std::int64_t{encoding.offsets[i].begin}, std::int64_t{encoding.offsets[i].end},
         encoding.words[i] ? Cell(std::int64_t{*encoding.words[i]}) : Cell(), covered(tokenized, i)});
  }
  append_text_table(
      text, make_table("", {"position", "token", "id", "begin", "end", "word", "text"}, std::move(rows)),
      style);
}

void TokenOutput::write(std::string_view texts) {
  begin();
  json_ ? json_->write_items(texts) : out_->write(texts);
}

void TokenOutput::finish() {
  begin();
  if (json_) json_->end({warnings_section(session_.warnings)});
  check_before_commit(session_);
  folder_ ? folder_->commit() : file_->commit();
}

}  // namespace attnctl::cli
