#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "input/text_input.hpp"
#include "report/csv.hpp"
#include "report/json.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::cli {

/// One input and its encoding.
struct TokenizedText {
  const TextInput& input;
  const Encoding& encoding;
};

/// Writes the output of `tokenize` (docs/cli.md) input by input, without keeping it in memory. Opens the
/// output before any work. Writes the first byte after the first inputs are tokenized, so that an error in
/// one of them leaves no output.
class TokenOutput {
 public:
  /// `path` is MODEL, as given.
  TokenOutput(const Target& target, const Tokenizer& tokenizer, const std::string& path, Session& session);

  /// Appends the text of one input. Safe to call from several threads.
  void append(std::string& text, const TokenizedText& tokenized) const;
  /// Writes the texts of inputs, in the order of the inputs.
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
