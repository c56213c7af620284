#include "cli/options/inputs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/mapped_file.hpp"
#include "checkpoint/source.hpp"
#include "cli/options/arrays_in.hpp"
#include "input/sequences.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kInputLimit = std::size_t{1} << 30;

struct FormatRow {
  std::string_view extension;
  InputFormat format;
};
constexpr std::array kFormats = {
    FormatRow{".txt", InputFormat::txt},
    FormatRow{".jsonl", InputFormat::jsonl},
    FormatRow{".json", InputFormat::json},
    FormatRow{".conllu", InputFormat::conllu},
};

void read_file_item(const InputItem& item, const InputOptions& options, OpenModel& open, Batch& batch,
                    Warnings& warnings) {
  const InputFormat format = input_format(item.value, options);
  const bool standard_input = item.value == "-";
  const std::string name = standard_input ? "standard input" : item.value;
  const std::string text =
      standard_input ? read_descriptor(STDIN_FILENO, name, kInputLimit) : read_file(item.value, kInputLimit);
  const std::size_t before = batch.sequences.size();
  const std::uint64_t blank = read_sequences(text, format, name, {open.vocabulary, open.encoder}, batch);
  if (batch.sequences.size() == before) fail(Status::bad_input, "{}: holds no input", escaped(item.value));
  if (blank > 0) warnings.add("blank_lines", fmt::format("{}: blank lines are no inputs", name), blank);
}

Sequence text_sequence(const InputItem& item, OpenModel& open) {
  require_utf8(item.value, {"--text", 0, 1});
  if (item.pair) require_utf8(*item.pair, {"--text-pair", 0, 1});
  return open.encoder.encode({{}, item.value, item.pair, std::nullopt});
}

/// Applies --truncate, and adds a warning for each truncated input.
void truncate_inputs(std::size_t most, Batch& batch, Warnings& warnings) {
  truncate_ids(batch, most);
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const Sequence& sequence = batch.sequences[s];
    if (sequence.truncated == 0) continue;
    warnings.add("truncated", fmt::format("input {}: {} tokens cut to the model's {} positions (--truncate)",
                                          s, sequence.queries() + sequence.truncated, most));
  }
}

/// Reads --embeddings with its --keys and --values: one sequence per item of the batch axis.
void read_embeddings_item(const std::string& path, const std::optional<std::string>& keys,
                          const std::optional<std::string>& values, Batch& batch) {
  std::vector<OwnedMatrix<float>> queries = read_embeddings(path);
  const auto beside = [&](const std::optional<std::string>& other) {
    std::vector<OwnedMatrix<float>> items;
    if (!other) return items;
    items = read_embeddings(*other);
    if (items.size() != queries.size()) {
      fail(Status::bad_input, "{}: a batch of {}, need {} as in {}", escaped(*other), items.size(),
           queries.size(), escaped(path));
    }
    return items;
  };
  std::vector<OwnedMatrix<float>> key_items = beside(keys);
  std::vector<OwnedMatrix<float>> value_items = beside(values);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    Sequence sequence;
    sequence.embeddings = std::move(queries[i]);
    if (!key_items.empty()) sequence.key_embeddings = std::move(key_items[i]);
    if (!value_items.empty()) sequence.value_embeddings = std::move(value_items[i]);
    const std::size_t value_rows = sequence.value_embeddings.rows();
    if (value_rows > 0 && value_rows != sequence.keys()) {
      fail(Status::bad_input, "{}: {} values, need {}, one for each key", escaped(*values), value_rows,
           sequence.keys());
    }
    batch.sequences.push_back(std::move(sequence));
  }
}

/// Adds the k-th target to the k-th input.
void add_targets(const InputOptions& options, OpenModel& open, Batch& batch) {
  if (options.targets.empty()) return;
  const std::optional<DecoderConfig>& decoder = open.model.config().decoder;
  if (!decoder)
    fail(Status::usage, "--target-ids and --target-text: the model has no decoder that reads an encoder");
  if (options.targets.size() != batch.sequences.size()) {
    fail(Status::usage, "{} targets for {} inputs: give one --target-ids or --target-text for each",
         options.targets.size(), batch.sequences.size());
  }
  for (std::size_t i = 0; i < options.targets.size(); ++i) {
    const InputItem& item = options.targets[i];
    auto target = std::make_shared<Sequence>();
    if (item.kind == InputItem::Kind::ids) {
      target->ids = parse_ids(item.value, "--target-ids");
    } else {
      require_utf8(item.value, {"--target-text", 0, 1});
      *target = open.encoder.encode({{}, item.value, std::nullopt, std::nullopt});
      if (!decoder->start_token)
        fail(Status::bad_input,
             "{}: names no /decoder_start_token_id to begin a text with; give --target-ids",
             escaped(open.model.source().config_path.string()));
      put_first(*decoder->start_token, *target);
    }
    batch.sequences[i].target = std::move(target);
  }
}

/// Removes the token types of the tokenizer if the model has no token type embedding.
void drop_token_types(const ModelConfig& config, Batch& batch) {
  if (config.embedding.token_types > 0) return;
  for (Sequence& sequence : batch.sequences) {
    if (sequence.text) sequence.token_type_ids.clear();
    if (sequence.target) sequence.target->token_type_ids.clear();
  }
}

void read_pixels_item(const std::string& path, const ModelConfig& config, Batch& batch) {
  const PatchGrid& grid = config.embedding.pixels;
  if (!grid.present()) {
    fail(Status::bad_input, "--pixels {}: a model of the type {} reads no images; give --text or --ids",
         escaped(path), config.family);
  }
  for (Sequence& sequence : read_images(path, grid)) batch.sequences.push_back(std::move(sequence));
}

void apply_masks(const InputOptions& options, Batch& batch) {
  if (options.mask == "none") {
    for (Sequence& sequence : batch.sequences) sequence.causal = false;
  } else if (options.mask == "causal") {
    for (Sequence& sequence : batch.sequences) sequence.causal = true;
  } else if (options.mask) {
    read_score_masks(*options.mask, batch);
  }
  if (options.key_mask) read_key_masks(*options.key_mask, batch);
}

}  // namespace

InputFormat input_format(const std::string& path, const InputOptions& options) {
  const bool standard_input = path == "-";
  if (standard_input && options.input_format.empty())
    fail(Status::usage, "--input -: need --input-format txt, jsonl, json or conllu");
  const std::string extension =
      standard_input ? "." + options.input_format : std::filesystem::path(path).extension().string();
  const auto* row = std::find_if(kFormats.begin(), kFormats.end(),
                                 [&](const FormatRow& each) { return each.extension == extension; });
  if (row != kFormats.end()) return row->format;
  fail(Status::bad_input, "{}: unsupported input \"{}\"; supported: .txt, .jsonl, .json, .conllu",
       escaped(path), escaped(extension));
}

void require_inputs(const InputOptions& options, const std::string& kinds) {
  if (options.items.empty()) {
    fail(Status::usage, "no input: give {} (--input - reads standard input)", kinds);
  }
  const auto readings = std::count_if(options.items.begin(), options.items.end(), [](const InputItem& item) {
    return item.kind == InputItem::Kind::file && item.value == "-";
  });
  if (readings > 1) fail(Status::usage, "--input -: standard input can be read only once");
}

std::vector<std::filesystem::path> files_read(const ModelOptions& model, const InputOptions& inputs) {
  std::vector<std::filesystem::path> files;
  const auto add = [&](const auto& paths) { files.insert(files.end(), paths.begin(), paths.end()); };
  if (!model.model.empty()) {
    add(checkpoint_files(model.model));
    add(tokenizer_files(model_directory(model.model)));
  }
  if (model.config) files.emplace_back(*model.config);
  for (const InputItem& item : inputs.items) {
    const bool named = item.kind != InputItem::Kind::text && item.kind != InputItem::Kind::ids;
    if (named) files.emplace_back(item.value == "-" ? "/dev/stdin" : item.value);
  }
  add(inputs.keys);
  add(inputs.values);
  if (inputs.mask && inputs.mask != "causal" && inputs.mask != "none") files.emplace_back(*inputs.mask);
  if (inputs.key_mask) files.emplace_back(*inputs.key_mask);
  return files;
}

Batch read_inputs(const InputOptions& options, OpenModel& open, Warnings& warnings) {
  require_inputs(options, "--text, --ids, --input, --embeddings or --pixels");
  const auto embeddings =
      std::count_if(options.items.begin(), options.items.end(),
                    [](const InputItem& item) { return item.kind == InputItem::Kind::embeddings; });
  if (options.keys.size() > static_cast<std::size_t>(embeddings) ||
      options.values.size() > options.keys.size()) {
    fail(Status::usage, "--keys and --values go with --embeddings, one for each, and --values with --keys");
  }
  const std::optional<std::size_t>& most = open.model.config().max_positions;
  if (options.truncate && most) open.encoder.truncate_to(*most);
  Batch batch;
  std::size_t embedding_items = 0;
  const auto at = [](const std::vector<std::string>& list, std::size_t i) {
    return i < list.size() ? std::optional(list[i]) : std::nullopt;
  };
  for (const InputItem& item : options.items) {
    switch (item.kind) {
      case InputItem::Kind::text:
        batch.sequences.push_back(text_sequence(item, open));
        break;
      case InputItem::Kind::ids:
        batch.sequences.emplace_back().ids = parse_ids(item.value);
        break;
      case InputItem::Kind::file:
        read_file_item(item, options, open, batch, warnings);
        break;
      case InputItem::Kind::embeddings:
        read_embeddings_item(item.value, at(options.keys, embedding_items),
                             at(options.values, embedding_items), batch);
        ++embedding_items;
        break;
      case InputItem::Kind::pixels:
        read_pixels_item(item.value, open.model.config(), batch);
        break;
    }
  }
  if (options.truncate && most) truncate_inputs(*most, batch, warnings);
  add_targets(options, open, batch);
  finish_batch(batch, open.vocabulary);
  drop_token_types(open.model.config(), batch);
  apply_masks(options, batch);
  return batch;
}

}  // namespace attnctl::cli
