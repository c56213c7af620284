#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"
#include "cli/commands.hpp"
#include "cli/commands/token_output.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "input/input_ids.hpp"
#include "input/text_blocks.hpp"
#include "input/text_input.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kDocumentLimit = std::size_t{1} << 30;  // .json files are read as a whole
constexpr std::size_t kBlocksAWorker = 4;                     // blocks in memory per worker
constexpr std::size_t kInputsABlock = 256;

struct TokenizeOptions {
  ModelOptions model;
  InputOptions inputs;
  OutputOptions output;
  RunOptions run;
};

/// Returns the directory of MODEL and, if MODEL is a file that contains a tokenizer, that tokenizer.
TokenizerOrigin tokenizer_origin(const std::string& model) {
  TokenizerOrigin origin{model_directory(model), nullptr};
  if (std::filesystem::is_regular_file(model)) origin.section = read_tokenizer_section(model);
  return origin;
}

/// Tokenizes the inputs of the command line in rounds of a few blocks per worker. Blocks are read and written
/// sequentially, and parsed and tokenized in parallel.
class TokenizeRun {
 public:
  explicit TokenizeRun(const TokenizeOptions& options);
  void run();

 private:
  /// Inputs that one task tokenizes.
  struct Batch {
    TextBlock block;
    std::vector<TextInput> inputs;
    std::uint64_t blank_lines = 0;
    std::string output;
  };
  struct Worker {
    Tokenizer::StatePtr state;
    Encoding encoding;
  };

  void run_text(const InputItem& item);
  void run_file(const std::string& path);
  void run_blocks(const std::string& path, InputFormat format);
  void run_document(const std::string& path);
  void tokenize(std::span<Batch> batches);

  const TokenizeOptions& options_;
  Target target_;
  Session session_;
  Tokenizer tokenizer_;
  TokenOutput output_;
  std::vector<Worker> workers_;
  InputIds ids_;
};

TokenizeRun::TokenizeRun(const TokenizeOptions& options)
    : options_(options),
      target_(resolve_target(options.output, {Format::json, Format::jsonl, Format::csv, Format::text},
                             files_read(options.model, options.inputs))),
      session_(options.run),
      tokenizer_(Tokenizer::open(tokenizer_origin(options.model.model))),
      output_(target_, tokenizer_, options.model.model, session_) {
  for (std::size_t i = 0; i < session_.pool.size(); ++i) workers_.push_back({tokenizer_.make_state(), {}});
}

/// Numbers the inputs, tokenizes them in parallel and writes them.
void TokenizeRun::tokenize(std::span<Batch> batches) {
  for (Batch& batch : batches) {
    for (TextInput& input : batch.inputs) input.id = ids_.next(input.id);
  }
  session_.pool.run(batches.size(), [&](std::size_t task, std::size_t number) {
    Worker& worker = workers_[number];
    Batch& batch = batches[task];
    batch.output.clear();
    for (const TextInput& input : batch.inputs) {
      std::optional<std::string_view> pair;
      if (input.pair) pair = *input.pair;
      tokenizer_.encode(input.text, pair, *worker.state, worker.encoding);
      output_.append(batch.output, {input, worker.encoding});
    }
  });
  for (const Batch& batch : batches) output_.write(batch.output);
}

void TokenizeRun::run_text(const InputItem& item) {
  require_utf8(item.value, {"--text", 0, 1});
  if (item.pair) require_utf8(*item.pair, {"--text-pair", 0, 1});
  Batch batch;
  batch.inputs.push_back({{}, item.value, item.pair, std::nullopt});
  tokenize(std::span(&batch, 1));
}

void TokenizeRun::run_blocks(const std::string& path, InputFormat format) {
  TextBlocks blocks(path, block_end(format));
  std::vector<Batch> batches(kBlocksAWorker * session_.pool.size());
  std::uint64_t inputs = 0;
  std::uint64_t blank = 0;
  session_.progress.begin("tokenize", blocks.stream().length().value_or(0));
  while (true) {
    std::size_t count = 0;
    while (count < batches.size() && blocks.next(batches[count].block)) ++count;
    if (count == 0) break;
    const std::span<Batch> round = std::span(batches).first(count);
    session_.pool.run(count, [&](std::size_t task, std::size_t /*worker*/) {
      Batch& batch = round[task];
      batch.inputs.clear();
      batch.blank_lines = read_text_inputs(batch.block.text, format, batch.block.place, batch.inputs);
    });
    tokenize(round);
    for (const Batch& batch : round) {
      inputs += batch.inputs.size();
      blank += batch.blank_lines;
      session_.progress.advance(batch.block.text.size());
    }
  }
  session_.progress.end();
  if (inputs == 0) fail(Status::bad_input, "{}: holds no input", blocks.stream().name());
  if (blank > 0) {
    session_.warnings.add("blank_lines", fmt::format("{}: blank lines are no inputs", blocks.stream().name()),
                          blank);
  }
}

void TokenizeRun::run_document(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  const std::string text =
      path == "-" ? read_descriptor(STDIN_FILENO, name, kDocumentLimit) : read_file(path, kDocumentLimit);
  std::vector<TextInput> inputs;
  read_text_inputs(text, InputFormat::json, {escaped(name), 0, 1}, inputs);
  if (inputs.empty()) fail(Status::bad_input, "{}: holds no input", escaped(name));
  for (std::size_t first = 0; first < inputs.size();) {
    std::vector<Batch> batches;
    while (first < inputs.size() && batches.size() < kBlocksAWorker * session_.pool.size()) {
      const std::size_t last = std::min(first + kInputsABlock, inputs.size());
      std::vector<TextInput>& part = batches.emplace_back().inputs;
      for (; first < last; ++first) part.push_back(std::move(inputs[first]));
    }
    tokenize(batches);
  }
}

void TokenizeRun::run_file(const std::string& path) {
  const InputFormat format = input_format(path, options_.inputs);
  format == InputFormat::json ? run_document(path) : run_blocks(path, format);
}

void TokenizeRun::run() {
  for (const InputItem& item : options_.inputs.items) {
    item.kind == InputItem::Kind::text ? run_text(item) : run_file(item.value);
  }
  output_.finish();
  print_warnings(session_);
}

void check_options(const TokenizeOptions& options) {
  require_inputs(options.inputs, "--text or --input");
  for (const InputItem& item : options.inputs.items) {
    if (item.kind == InputItem::Kind::file) (void)input_format(item.value, options.inputs);
  }
  const std::string& table = options.output.table;
  if (!table.empty() && table != "tokens")
    fail(Status::usage, "--table: unsupported \"{}\"; this command has tokens", escaped(table));
}

}  // namespace

Command tokenize_command() {
  Command command{.name = "tokenize", .about = "Ids, tokens, offsets and words of texts"};
  auto options = std::make_shared<TokenizeOptions>();
  command.add(
      {{.names = "MODEL",
        .target = &options->model.model,
        .help = "a directory with tokenizer.json or what stands for it, a GGUF file, or a name in the "
                "local Hugging Face cache; no weights are needed",
        .required = true}});
  add_text_options(command, options->inputs);
  add_target_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output, "with csv: tokens, as one file and not in a folder");
  add_worker_options(command, options->run);
  command.footer =
      "Offsets count code points of the text; words are as the tokenizer's file cuts them.\n"
      "Examples:\n"
      "  attnctl tokenize data/tiny-bert --text \"The animal didn't cross the street.\" --format text\n"
      "  attnctl tokenize data/tiny-llama --text Once --text-pair again | jq '.inputs[0].ids'\n"
      "  printf 'a line\\nanother\\n' | attnctl tokenize data/tiny-bert --input - --input-format txt "
      "--format "
      "jsonl";
  command.action = [options] {
    check_options(*options);
    TokenizeRun(*options).run();
  };
  return command;
}

}  // namespace attnctl::cli
