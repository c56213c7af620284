#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "input/sequences.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::cli {
namespace {

using input::TextInput;
using tokenizer::Encoding;

void append_number(std::string& text, std::int64_t number) {
  report::NumberFormat().append(text, number);
}

std::string_view token_of(const tokenizer::Tokenizer& tokenizer, std::int64_t id) {
  return tokenizer.vocabulary().token(id).value_or(std::string_view());
}

/// Appends `, "name": [...]` with `count` items. each(i) appends item i.
template <typename Each>
void append_list(std::string& text, std::string_view name, std::size_t count, Each&& each) {
  text.append(", \"").append(name).append("\": [");
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    each(i);
  }
  text += ']';
}

/// Returns the characters that a token covers, of the input text or of the second text of the pair.
std::string covered(const TextInput& input, const Encoding& encoding, std::size_t token) {
  const bool second = encoding.sequence[token] == 1 && input.pair;
  std::string_view text = second ? *input.pair : input.text;
  const tokenizer::TextRange range = encoding.offsets[token];
  std::string part;
  for (std::uint32_t place = 0; place < range.end && !text.empty(); ++place) {
    std::size_t length = 1;
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) ++length;
    if (place >= range.begin) part += text.substr(0, length);
    text.remove_prefix(length);
  }
  return part;
}

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

/// Writes the output of `tokenize` (docs/cli.md) in parts, without keeping the whole output in memory. Opens
/// the output file before any work, but writes nothing before the first group of inputs is tokenized.
class TokenOutput {
 public:
  TokenOutput(const Target& target, const tokenizer::Tokenizer& tokenizer, const CommandOptions& options,
              Session& session)
      : target_(target), tokenizer_(tokenizer), options_(options), session_(session) {
    if (target.is_folder()) {
      out_ = &folder_.emplace(target.path).open(fmt::format("tokens{}", target.format.extension));
    } else {
      out_ = &file_.emplace(target.path);
    }
    if (target.format.form == inspect::Form::document)
      json_.emplace(*out_, target.format.layout, "inputs", "input");
  }

  /// Appends the output for one input to `text`. Safe to call from several threads.
  void append(std::string& text, const TextInput& input, const Encoding& encoding) const {
    if (json_) return append_json(text, input, encoding);
    target_.format.form == inspect::Form::tables ? append_csv(text, input, encoding)
                                                 : append_table(text, input, encoding);
  }

  /// Writes texts from append(). Calls must be in the order of the inputs.
  void write(std::string_view texts) {
    begin();
    json_ ? json_->write_items(texts) : out_->write(texts);
  }

  void finish() {
    begin();
    if (json_) json_->end(warnings_section(session_.warnings));
    check_before_commit(session_);
    folder_ ? folder_->commit() : file_->commit();
  }

 private:
  void begin() {
    if (std::exchange(begun_, true)) return;
    if (!json_) return out_->write(target_.format.form == inspect::Form::tables ? csv_header() : heading());
    json_->begin(
        Record()
            .set("schema", "attnctl.tokens/2")
            .set("attnctl", tool_record(session_))
            .set("tokenizer", Record()
                                  .set("path", options_.model.model)
                                  .set("vocabulary", tokenizer_.vocabulary().size())
                                  .set("truncation", value_of(tokenizer_.unapplied().at("truncation")))
                                  .set("padding", value_of(tokenizer_.unapplied().at("padding")))));
  }

  void append_json(std::string& text, const TextInput& input, const Encoding& encoding) const {
    const std::size_t n = encoding.size();
    const auto string = [&](std::string_view name, std::string_view value) {
      report::append_json_string(text.append(name), value);
    };
    const auto number_or_null = [&](bool known, std::int64_t number) {
      known ? append_number(text, number) : void(text += "null");
    };
    json_->open_item(text);
    string("\"id\": ", input.id);
    string(", \"text\": ", input.text);
    if (input.pair) string(", \"text_pair\": ", *input.pair);
    append_list(text, "tokens", n, [&](std::size_t i) {
      report::append_json_string(text, token_of(tokenizer_, encoding.ids[i]));
    });
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
    if (input.pair) {
      append_list(text, "token_type_ids", n,
                  [&](std::size_t i) { append_number(text, encoding.type_ids[i]); });
      append_list(text, "sequence_ids", n,
                  [&](std::size_t i) { number_or_null(encoding.special[i] == 0, encoding.sequence[i]); });
    }
    json_->close_item(text);
  }

  [[nodiscard]] std::string csv_header() const {
    std::string header = "input,position,token,id,begin,end,word,sequence_id\r\n";
    std::ranges::replace(header, ',', target_.format.separator);
    return header;
  }

  void append_csv(std::string& text, const TextInput& input, const Encoding& encoding) const {
    const char separator = target_.format.separator;
    std::string id;
    report::append_csv_text(id, input.id, separator);
    for (std::size_t i = 0; i < encoding.size(); ++i) {
      text += id;
      text += separator;
      append_number(text, static_cast<std::int64_t>(i));
      text += separator;
      report::append_csv_text(text, token_of(tokenizer_, encoding.ids[i]), separator);
      for (const std::int64_t number : {encoding.ids[i], std::int64_t{encoding.offsets[i].begin},
                                        std::int64_t{encoding.offsets[i].end}}) {
        text += separator;
        append_number(text, number);
      }
      text += separator;
      if (encoding.words[i]) append_number(text, *encoding.words[i]);
      text += separator;
      if (encoding.special[i] == 0) append_number(text, encoding.sequence[i]);
      text += "\r\n";
    }
  }

  void append_table(std::string& text, const TextInput& input, const Encoding& encoding) const {
    const report::TextOptions style = text_style(target_);
    std::string title = fmt::format("input \"{}\": {}", input.id, input.text);
    if (input.pair) title += " | " + *input.pair;
    text += '\n' + report::text_line({title}, style);
    if (encoding.size() == 0) {
      text += "no tokens\n";
      return;
    }
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < encoding.size(); ++i) {
      rows.push_back(
          {static_cast<std::int64_t>(i),
           tokenizer_.vocabulary().label(token_of(tokenizer_, encoding.ids[i]),
                                         options_.output.strip_markers),
           encoding.ids[i], std::int64_t{encoding.offsets[i].begin}, std::int64_t{encoding.offsets[i].end},
           encoding.words[i] ? Cell(std::int64_t{*encoding.words[i]}) : Cell(), covered(input, encoding, i)});
    }
    report::append_text_table(
        text, make_table("", {"position", "token", "id", "begin", "end", "word", "text"}, std::move(rows)),
        style);
  }

  [[nodiscard]] std::string heading() const {
    const report::TextOptions style = text_style(target_);
    std::string text = report::text_line(
        {options_.model.model, fmt::format(": a vocabulary of {}", tokenizer_.vocabulary().size())}, style);
    for (const auto& [name, section] : tokenizer_.unapplied().items()) {
      if (section.is_null()) continue;
      const auto field = [](const auto& item) { return item.key() + ' ' + item.value().dump(); };
      text += report::text_line({"", fmt::format("{} of the tokenizer file is not applied: {}", name,
                                                 join_texts(section.items(), field))},
                                style);
    }
    return text;
  }

  const Target& target_;
  const tokenizer::Tokenizer& tokenizer_;
  const CommandOptions& options_;
  Session& session_;
  std::optional<OutputFolder> folder_;
  std::optional<OutputFile> file_;
  OutputFile* out_ = nullptr;
  std::optional<report::JsonStream> json_;
  bool begun_ = false;
};

constexpr std::size_t kBlocksAWorker = 4;      // number of TextBatch objects per worker
constexpr std::ptrdiff_t kInputsABlock = 256;  // largest number of inputs of a .json file in a TextBatch

/// Tokenizes the inputs of the command line. Divides each file into pieces of one or more inputs. Tokenizes a
/// few pieces per worker in parallel, writes their output in order, and continues with the next pieces.
class TokenizeRun {
 public:
  explicit TokenizeRun(const CommandOptions& options)
      : options_(options),
        target_(resolve_target(options.output, files_read(options))),
        session_(options.run),
        tokenizer_(tokenizer::Tokenizer::open(inspect::tokenizer_origin(options.model.model))),
        output_(target_, tokenizer_, options, session_) {
    for (std::size_t i = 0; i < session_.pool.size(); ++i)
      workers_.push_back({tokenizer_.make_state(), {}, {}});
  }

  void run() {
    warn_unused_options(target_, options_.output, session_.warnings);
    for (const InputItem& item : options_.inputs.items) {
      if (item.kind == InputKind::text) {
        TextBatch batch;
        batch.inputs.push_back(text_input(item));
        tokenize(std::span(&batch, 1));
        continue;
      }
      const input::InputFormat format = input_format(item.value, options_.inputs);
      format == input::InputFormat::json ? run_document(item.value) : run_blocks(item.value, format);
    }
    input::TextChecks checks;
    for (const Worker& worker : workers_) checks.add(worker.checks);
    checks.warn(session_.warnings);
    output_.finish();
    print_warnings(session_);
  }

 private:
  /// The inputs that one task of the worker pool tokenizes: a piece of a file, or one --text.
  struct TextBatch {
    input::TextBlock block;
    std::vector<TextInput> inputs;
    std::uint64_t blank_lines = 0;
    std::string output;
  };
  struct Worker {
    tokenizer::Tokenizer::StatePtr state;
    Encoding encoding;
    input::TextChecks checks;
  };

  void run_blocks(const std::string& path, input::InputFormat format) {
    input::TextBlocks blocks(path, format);
    std::vector<TextBatch> batches(kBlocksAWorker * session_.pool.size());
    std::uint64_t inputs = 0;
    std::uint64_t blank = 0;
    session_.progress.begin("tokenize", blocks.stream().length().value_or(0), "byte");
    while (true) {
      std::size_t count = 0;
      while (count < batches.size() && blocks.next(batches[count].block)) ++count;
      if (count == 0) break;
      const std::span<TextBatch> round = std::span(batches).first(count);
      session_.pool.run(count, [&](std::size_t task, std::size_t /*worker*/) {
        TextBatch& batch = round[task];
        batch.inputs.clear();
        batch.blank_lines =
            input::read_text_inputs(batch.block.text, format, batch.block.place, batch.inputs);
      });
      tokenize(round);
      for (const TextBatch& batch : round) {
        inputs += batch.inputs.size();
        blank += batch.blank_lines;
      }
      const input::TextBlock& last = round.back().block;
      session_.progress.reach(blocks.stream().position(last.place.offset + last.text.size()));
    }
    session_.progress.end();
    if (inputs == 0) fail(Status::bad_input, "{}: contains no inputs", blocks.stream().name());
    if (blank > 0)
      session_.warnings.add("blank_lines", fmt::format("{}: skipped a blank line", blocks.stream().name()),
                            blank);
  }

  void run_document(const std::string& path) {
    std::vector<TextInput> inputs;
    const input::TextBlock file = input::read_whole(path);
    input::read_text_inputs(file.text, input::InputFormat::json, file.place, inputs);
    if (inputs.empty()) refuse(file.place.file, "contains no inputs");
    session_.progress.begin("tokenize", inputs.size(), "text");
    for (auto first = inputs.begin(); first != inputs.end();) {
      std::vector<TextBatch> batches;
      while (first != inputs.end() && batches.size() < kBlocksAWorker * session_.pool.size()) {
        const auto last = first + std::min(kInputsABlock, inputs.end() - first);
        batches.emplace_back().inputs.assign(std::move_iterator(first), std::move_iterator(last));
        first = last;
      }
      tokenize(batches);
      session_.progress.reach(static_cast<std::size_t>(first - inputs.begin()));
    }
    session_.progress.end();
  }

  void tokenize(std::span<TextBatch> batches) {
    for (TextBatch& batch : batches) {
      for (TextInput& input : batch.inputs) input.id = ids_.next(input.id);
    }
    session_.pool.run(batches.size(), [&](std::size_t task, std::size_t number) {
      Worker& worker = workers_[number];
      TextBatch& batch = batches[task];
      batch.output.clear();
      for (const TextInput& input : batch.inputs) {
        tokenizer_.encode(input.text, input.pair, *worker.state, worker.encoding);
        worker.checks.add(input.text, worker.encoding, tokenizer_.vocabulary());
        output_.append(batch.output, input, worker.encoding);
      }
    });
    for (const TextBatch& batch : batches) output_.write(batch.output);
  }

  const CommandOptions& options_;
  Target target_;
  Session session_;
  tokenizer::Tokenizer tokenizer_;
  TokenOutput output_;
  std::vector<Worker> workers_;
  input::InputIds ids_;
};

void check_options(const CommandOptions& options) {
  require_inputs(options.inputs, "a text or --input");
  for (const InputItem& item : options.inputs.items) {
    if (item.kind == InputKind::file) (void)input_format(item.value, options.inputs);
  }
  const std::string& table = options.output.table;
  if (!table.empty() && table != "tokens")
    fail(Status::usage, "--table: unsupported \"{}\"; the only table of this command is tokens",
         escaped(table));
}

}  // namespace

Command tokenize_command() {
  Command command{.name = "tokenize", .about = "Show the tokens, ids, offsets and words of texts"};
  auto options = std::make_shared<CommandOptions>();
  command.add({{.names = "MODEL",
                .target = &options->model.model,
                .help = "Directory with tokenizer files, GGUF file, or name in the local Hugging Face cache; "
                        "weights are not needed",
                .required = true}});
  add_text_options(command, options->inputs);
  add_target_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output, "tokens");
  command.add("Output", {strip_markers_option(options->output.strip_markers)});
  add_worker_options(command, options->run);
  command.footer =
      "Offsets count characters (Unicode code points) of the text. Words are the pieces into which the "
      "tokenizer splits a text before it looks up tokens.\n"
      "Examples:\n"
      "  attnctl tokenize data/tiny-bert \"The animal didn't cross the street.\" --format text\n"
      "  attnctl tokenize data/tiny-llama --text Once --text-pair again | jq '.inputs[0].ids'\n"
      "  printf 'a line\\nanother\\n' | attnctl tokenize data/tiny-bert --input - --format jsonl\n"
      "  printf 'a text of\\ntwo lines\\n' | attnctl tokenize data/tiny-bert --text - --format text";
  command.action = [options] {
    check_options(*options);
    TokenizeRun(*options).run();
  };
  return command;
}

}  // namespace attnctl::cli
