#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "input/text_input.hpp"
#include "report/csv.hpp"
#include "report/json/json_stream.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::cli {

/// One input and what the tokenizer made of it.
struct TokenizedText {
  const TextInput& input;
  const Encoding& encoding;
};

/// Writes the output of `tokenize` input by input (docs/cli.md): nothing is held. Opened before any work; the
/// first byte is written when the first inputs are done, so that a bad one among them leaves nothing behind.
class TokenOutput {
 public:
  /// `path` is MODEL as given.
  TokenOutput(const Target& target, const Tokenizer& tokenizer, const std::string& path, Session& session);

  /// Appends the text of an input; safe from several threads.
  void append(std::string& text, const TokenizedText& tokenized) const;
  /// Takes texts of inputs in their order.
  void write(std::string_view texts);
  void finish();

 private:
  void begin();
  void append_json(std::string& text, const TokenizedText& tokenized) const;
  void append_csv(std::string& text, const TokenizedText& tokenized) const;
  void append_table(std::string& text, const TokenizedText& tokenized) const;
  [[nodiscard]] Record tokenizer_record() const;
  [[nodiscard]] std::string heading() const;

  const Target& target_;
  const Tokenizer& tokenizer_;
  std::string path_;
  Session& session_;
  std::optional<CsvFolder> folder_;
  std::optional<OutputFile> file_;
  OutputFile* out_ = nullptr;
  std::optional<JsonStream> json_;
  bool begun_ = false;
};

}  // namespace attnctl::cli
