#include "cli/options/inputs.hpp"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "input/sequences.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl::cli {
namespace {

// --- Arrays in .npy files

FileArray<float> read_array(const std::string& path) {
  if (std::filesystem::path(path).extension() != ".npy")
    fail(Status::bad_input, "{}: need an array in a .npy file", escaped(path));
  return read_npy<float>(path);
}

/// Converts a mask of bools or integers (1 and 0) to a mask that is added to the scores (0 and -inf). Leaves
/// a float mask unchanged. Throws Error(bad_input) for NaN, +inf and integers other than 0 and 1.
void to_added(FileArray<float>& array) {
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    float& value = array.values[i];
    if (is_floating(array.dtype)) {
      if (std::isnan(value) || value == std::numeric_limits<float>::infinity()) {
        fail(Status::bad_input,
             "{}: value {} of the mask is {}, need a number or -inf, which is added to the score", array.file,
             i, value);
      }
    } else {
      if (value != 0.0F && value != 1.0F) {
        fail(Status::bad_input, "{}: value {} of the mask is {}, need 1 (may attend) or 0 (hidden)",
             array.file, i, value);
      }
      value = value == 1.0F ? 0.0F : -std::numeric_limits<float>::infinity();
    }
  }
}

/// Returns the matrices of an array [n, d] or [batch, n, d]. Throws Error(bad_input) for any other shape.
std::vector<OwnedMatrix<float>> read_embeddings(const std::string& path) {
  const FileArray<float> array = read_array(path);
  if (array.shape.size() != 2 && array.shape.size() != 3) array.refuse_shape("[n, d] or [batch, n, d]");
  const std::size_t batch = array.shape.size() == 3 ? array.shape[0] : 1;
  if (checked_product(array.shape) == 0) array.refuse_shape("no axis of length 0");
  std::vector<OwnedMatrix<float>> items;
  for (std::size_t b = 0; b < batch; ++b) items.push_back(array.matrix(b));
  return items;
}

/// Adds a sequence per image of an array [channels, height, width] or [batch, channels, height, width].
/// Throws Error(bad_input) for integers, for any other shape, and if the model does not read images.
void read_images(const std::string& path, const model::ModelConfig& config, input::Batch& batch) {
  const PatchGrid& grid = config.embedding.pixels;
  if (!grid.present()) {
    fail(Status::bad_input,
         "--pixels {}: a model of type {} does not read images; give --text, --ids or --embeddings",
         escaped(path), config.family);
  }
  const FileArray<float> array = read_array(path);
  if (!is_floating(array.dtype)) {
    fail(Status::bad_input,
         "{}: got {}, need floating-point pixels, scaled as the model's image processor does it", array.file,
         name_of(array.dtype));
  }
  const Shape image = {grid.channels, grid.height, grid.width};
  const std::size_t axes = array.shape.size();
  const bool fits = (axes == 3 || (axes == 4 && array.shape[0] > 0)) &&
                    std::ranges::equal(image, std::span(array.shape).last(3));
  if (!fits) {
    array.refuse_shape(fmt::format("{0} or [batch, {1}, the channels, height and width of the model's images",
                                   to_string(image), to_string(image).substr(1)));
  }
  for (std::size_t begin = 0; begin < array.values.size(); begin += grid.image_size())
    batch.sequences.push_back(
        input::make_pixel_sequence(std::span(array.values).subspan(begin, grid.image_size()), grid));
}

/// Reads a mask over the scores of each sequence, for n queries, m keys and h heads: [n, m], [batch, n, m],
/// [batch, 1, n, m] or [batch, h, n, m]. Throws Error(bad_input) if the shape does not fit the batch, and the
/// errors of to_added().
void read_score_masks(const std::string& path, input::Batch& batch) {
  FileArray<float> array = read_array(path);
  const std::size_t axes = array.shape.size();
  const std::string need = fmt::format("[n, m], [batch, n, m], [batch, 1, n, m] or [batch, h, n, m] for {}",
                                       counted(batch.sequences.size(), "input"));
  if (axes < 2 || axes > 4 || (axes > 2 && array.shape[0] != batch.sequences.size()))
    array.refuse_shape(need);
  to_added(array);
  const std::size_t heads = axes == 4 ? array.shape[1] : 1;
  const std::size_t queries = array.shape[axes - 2];
  const std::size_t keys = array.shape[axes - 1];
  const std::size_t each = heads * queries * keys;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    input::Sequence& sequence = batch.sequences[s];
    if (queries != sequence.queries() || keys != sequence.keys()) {
      array.refuse_shape(fmt::format("{} and {} as input \"{}\" has",
                                     counted(sequence.queries(), "query", "queries"),
                                     counted(sequence.keys(), "key"), escaped(sequence.id)));
    }
    const std::span<const float> values = std::span(array.values).subspan(axes == 2 ? 0 : s * each, each);
    sequence.mask = input::ScoreMask{heads, queries, keys, {values.begin(), values.end()}};
  }
}

/// Reads a mask of bools or integers over the keys of each sequence [batch, m]: 1 (visible) or 0 (hidden).
/// Throws Error(bad_input) if the shape does not fit the batch, for floats, and the errors of to_added().
void read_key_masks(const std::string& path, input::Batch& batch) {
  FileArray<float> array = read_array(path);
  if (is_floating(array.dtype))
    fail(Status::bad_input, "{}: got {}, need bool or integer", array.file, name_of(array.dtype));
  if (array.shape.size() != 2 || array.shape[0] != batch.sequences.size())
    array.refuse_shape(fmt::format("[{}, m]", batch.sequences.size()));
  to_added(array);
  const std::size_t keys = array.shape[1];
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    input::Sequence& sequence = batch.sequences[s];
    if (keys != sequence.keys())
      array.refuse_shape(
          fmt::format("{} as input \"{}\" has", counted(sequence.keys(), "key"), escaped(sequence.id)));
    sequence.key_visible.resize(keys);
    for (std::size_t j = 0; j < keys; ++j)
      sequence.key_visible[j] = array.values[s * keys + j] == 0.0F ? 1 : 0;
  }
}

// --- Inputs

void read_file_item(const InputItem& item, const InputOptions& options, OpenModel& open, input::Batch& batch,
                    Warnings& warnings) {
  const input::InputFormat format = input_format(item.value, options);
  const input::TextBlock file = input::read_whole(item.value);
  const std::size_t before = batch.sequences.size();
  const std::uint64_t blank = input::read_sequences(file, format, open.vocabulary, open.encoder, batch);
  if (batch.sequences.size() == before) refuse(file.place.file, "contains no inputs");
  if (blank > 0) warnings.add("blank_lines", fmt::format("{}: skipped a blank line", file.place.file), blank);
}

/// Shortens the inputs given as ids or tokens to `most` tokens. Adds a warning for each truncated input,
/// including the texts, which the encoder has already shortened.
void truncate_inputs(std::size_t most, input::Batch& batch, Warnings& warnings) {
  input::truncate_ids(batch, most);
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const input::Sequence& sequence = batch.sequences[s];
    if (sequence.truncated == 0) continue;
    warnings.add("truncated", fmt::format("input {}: {} cut to the model's {} (--truncate)", s,
                                          counted(sequence.queries() + sequence.truncated, "token"),
                                          counted(most, "position")));
  }
}

/// Reads `path`, the file of --embeddings number `index`, and its --keys and --values. Adds one sequence per
/// item of the batch in the file.
void read_embeddings_item(const std::string& path, std::size_t index, const InputOptions& options,
                          input::Batch& batch) {
  std::vector<OwnedMatrix<float>> queries = read_embeddings(path);
  const auto read_other = [&](const std::vector<std::string>& files) {
    std::vector<OwnedMatrix<float>> items(queries.size());
    if (index >= files.size()) return items;
    items = read_embeddings(files[index]);
    if (items.size() != queries.size()) {
      fail(Status::bad_input, "{}: got a batch of {}, need {} as in {}", escaped(files[index]), items.size(),
           queries.size(), escaped(path));
    }
    return items;
  };
  std::vector<OwnedMatrix<float>> keys = read_other(options.keys);
  std::vector<OwnedMatrix<float>> values = read_other(options.values);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    input::Sequence& sequence = batch.sequences.emplace_back();
    sequence.embeddings = std::move(queries[i]);
    sequence.key_embeddings = std::move(keys[i]);
    sequence.value_embeddings = std::move(values[i]);
    const std::size_t value_rows = sequence.value_embeddings.rows();
    if (value_rows > 0 && value_rows != sequence.keys()) {
      fail(Status::bad_input, "{}: got {}, need {}, one per key", escaped(options.values[index]),
           counted(value_rows, "value"), sequence.keys());
    }
  }
}

/// Returns the target of --NAME-text or --NAME-ids.
std::shared_ptr<input::Sequence> read_target(const InputItem& item, const std::string& name,
                                             OpenModel& open) {
  if (!open.model.config().decoder)
    fail(Status::usage, "--{0}-ids and --{0}-text: the model is not an encoder-decoder model", name);
  auto target = std::make_shared<input::Sequence>();
  if (item.kind == InputKind::ids) {
    target->ids = input::parse_ids(item.value, fmt::format("--{}-ids", name));
  } else {
    input::require_utf8(item.value, {fmt::format("--{}-text", name), 0, 1});
    *target = open.encoder.encode_target(item.value);
  }
  return target;
}

/// Adds the targets of --target-text and --target-ids. Throws Error(usage) unless all inputs then have a
/// target, from these options or from a JSON file, or none.
void add_targets(const InputOptions& options, OpenModel& open, input::Batch& batch) {
  const auto has_target = [](const input::Sequence& sequence) { return sequence.target != nullptr; };
  const auto given = std::ranges::count_if(batch.sequences, has_target);
  if (options.targets.empty()) {
    const auto without = std::ranges::find_if_not(batch.sequences, has_target);
    if (given > 0 && without != batch.sequences.end())
      fail(Status::usage, "input {}: has no target, but another input has one; give a target for each input",
           without - batch.sequences.begin());
    return;
  }
  if (given > 0)
    fail(Status::usage,
         "--target-ids and --target-text: the file of --input has targets; remove one of them");
  if (options.targets.size() != batch.sequences.size()) {
    fail(Status::usage, "got {} for {}; give one --target-ids or --target-text for each input",
         counted(options.targets.size(), "target"), counted(batch.sequences.size(), "input"));
  }
  for (std::size_t i = 0; i < options.targets.size(); ++i)
    batch.sequences[i].target = read_target(options.targets[i], "target", open);
}

}  // namespace

input::TextInput text_input(const InputItem& item) {
  const bool standard_input = item.is_standard_input();
  std::string text = standard_input ? input::read_whole("-").text : item.value;
  if (standard_input && text.empty()) fail(Status::bad_input, "standard input: is empty; need a text");
  if (standard_input && text.ends_with('\n')) text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
  input::require_utf8(text, {standard_input ? "standard input" : "--text", 0, 1});
  if (item.pair) input::require_utf8(*item.pair, {"--text-pair", 0, 1});
  return {{}, std::move(text), item.pair, std::nullopt};
}

void add_target_input_options(Command& command, SingleInput& target) {
  command.add(
      "Inputs",
      {{"--target-text", &target.text,
        "For an encoder-decoder model: text that the decoder has read, after the model's start token; "
        "the prediction is that of the next token (\"\": of the first one)",
        "TEXT"},
       {"--target-ids", &target.ids,
        "Token ids to use instead of --target-text, with the start token, such as 0,15,27", "IDS"}});
}

input::Sequence single_input(const SingleInput& given, const SingleInput& target, OpenModel& open) {
  const std::string& name = given.name;
  const std::optional<std::string>& text = given.text;
  if (text && given.ids) fail(Status::usage, "--{0} and --{0}-ids: got both; give only one of them", name);
  if (!text && !given.ids)
    fail(Status::usage, "--{0}: need a text (--{0} TEXT) or token ids (--{0}-ids IDS)", name);
  if (text && text->empty()) fail(Status::usage, "--{}: the text is empty; need at least one word", name);
  if (text && !open.encoder.has_tokenizer())
    fail(Status::bad_input,
         "{0}: no tokenizer, so --{1} cannot be read; give --{1}-ids 1,2,3, or a model directory with a "
         "tokenizer",
         escaped(open.model.name()), name);
  if (target.text && target.ids)
    fail(Status::usage, "--{0}-text and --{0}-ids: got both; give only one of them", target.name);
  const model::ModelConfig& config = open.model.config();
  input::Batch batch;
  if (given.text) {
    batch.sequences.push_back(
        open.encoder.encode({.id = name, .text = *given.text, .pair = {}, .words = {}}));
  } else {
    batch.sequences.emplace_back().id = name;
    batch.sequences.front().ids = input::parse_ids(*given.ids, "--" + name + "-ids");
  }
  if (config.embedding.token_types == 0) batch.sequences.front().token_type_ids.clear();
  if (target.text || target.ids) {
    const InputItem item{target.text ? InputKind::text : InputKind::ids,
                         target.text ? *target.text : *target.ids};
    batch.sequences.front().target = read_target(item, target.name, open);
  } else if (config.decoder) {
    fail(Status::usage,
         "--{}: the decoder of this model predicts the token after a target; give --target-text TEXT (\"\" "
         "for its first token) or --target-ids IDS",
         name);
  }
  input::finish_batch(batch, open.vocabulary);
  forward::check_batch(open.model, batch);
  return batch.sequences.front();
}

std::int64_t answer_token(const std::string& option, const std::string& text, OpenModel& open) {
  if (const auto id = open.vocabulary.id(text)) return *id;
  if (!open.encoder.has_tokenizer())
    fail(Status::bad_input,
         "{}: no tokenizer, so {} {} has no token; give a model directory with a tokenizer",
         escaped(open.model.name()), option, in_quotes(text));
  const auto ids_of = [&](const std::string& of) {
    const input::Sequence sequence = open.encoder.encode({.id = "", .text = of, .pair = {}, .words = {}});
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < sequence.ids.size(); ++i)
      if (sequence.special.empty() || sequence.special[i] == 0) ids.push_back(sequence.ids[i]);
    return ids;
  };
  const std::vector<std::int64_t> ids = ids_of(text);
  if (ids.size() == 1) return ids.front();
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) tokens.push_back(in_quotes(open.vocabulary.token(id).value_or("")));
  const std::string spaced = " " + text;
  fail(Status::usage, "{} {}: got {} ({}), need a text of one token, or a token of the vocabulary{}", option,
       in_quotes(text), counted(ids.size(), "token"), shown(fmt::format("{}", fmt::join(tokens, " "))),
       ids_of(spaced).size() == 1
           ? fmt::format("; {}, with a space before it, is one token", in_quotes(spaced))
           : "");
}

input::InputFormat input_format(const std::string& path, const InputOptions& options) {
  const std::string& given = options.input_format;
  if (path == "-" && given.empty()) return input::guess_format(first_line_of_standard_input());
  return input::format_of_file(path, given);
}

void require_inputs(const InputOptions& options, const std::string& kinds) {
  if (options.items.empty()) fail(Status::usage, "no input: give {} (--input - reads standard input)", kinds);
  if (std::ranges::count_if(options.items, &InputItem::is_standard_input) > 1)
    fail(Status::usage, "standard input can be read only once: give - to one --input or --text");
}

std::vector<std::filesystem::path> files_read(const CommandOptions& options) {
  const ModelOptions& model = options.model;
  const InputOptions& inputs = options.inputs;
  std::vector<std::filesystem::path> files;
  const auto add = [&](const auto& paths) { files.insert(files.end(), paths.begin(), paths.end()); };
  if (!model.model.empty()) {
    std::error_code ignored;
    const bool like_text = model.model.starts_with('-') || model.model.find(' ') != std::string::npos;
    if (like_text && !std::filesystem::exists(model.model, ignored))
      fail(Status::environment, "{}: no such file or model; the first argument is MODEL, and texts follow it",
           in_quotes(model.model));
    add(checkpoint::checkpoint_files(model.model));
    add(tokenizer::tokenizer_files(checkpoint::model_directory(model.model)));
  }
  if (model.config) files.emplace_back(*model.config);
  if (model.adapter) add(checkpoint::adapter_files(*model.adapter));
  for (const InputItem& item : inputs.items) {
    const bool literal = item.kind == InputKind::text || item.kind == InputKind::ids;
    if (!literal || item.is_standard_input())
      files.emplace_back(item.value == "-" ? "/dev/stdin" : item.value);
  }
  add(inputs.keys);
  add(inputs.values);
  if (inputs.mask && inputs.mask != "causal" && inputs.mask != "none") files.emplace_back(*inputs.mask);
  if (inputs.key_mask) files.emplace_back(*inputs.key_mask);
  return files;
}

input::Batch read_inputs(const InputOptions& options, OpenModel& open, Warnings& warnings) {
  require_inputs(options, "a text, --ids, --input, --embeddings or --pixels");
  const auto embeddings = std::ranges::count(options.items, InputKind::embeddings, &InputItem::kind);
  if (std::ssize(options.keys) > embeddings || options.values.size() > options.keys.size())
    fail(Status::usage, "each --keys needs its own --embeddings, and each --values needs its own --keys");
  const std::optional<std::size_t>& most = open.model.config().max_positions;
  if (options.truncate) open.encoder.most = most;
  input::Batch batch;
  std::size_t embedding_items = 0;
  for (const InputItem& item : options.items) {
    switch (item.kind) {
      case InputKind::text:
        batch.sequences.push_back(open.encoder.encode(text_input(item)));
        break;
      case InputKind::ids:
        batch.sequences.emplace_back().ids = input::parse_ids(item.value);
        break;
      case InputKind::file:
        read_file_item(item, options, open, batch, warnings);
        break;
      case InputKind::embeddings:
        read_embeddings_item(item.value, embedding_items++, options, batch);
        break;
      case InputKind::pixels:
        read_images(item.value, open.model.config(), batch);
        break;
    }
  }
  if (options.truncate && most) truncate_inputs(*most, batch, warnings);
  add_targets(options, open, batch);
  open.encoder.checks.warn(warnings);
  input::finish_batch(batch, open.vocabulary);
  const bool typed = open.model.config().embedding.token_types > 0;
  for (input::Sequence& sequence : batch.sequences)
    if (!typed && sequence.text) sequence.token_type_ids.clear();
  const bool causal = options.mask == "causal";
  if (causal || options.mask == "none") {
    for (input::Sequence& sequence : batch.sequences) sequence.causal = causal;
  } else if (options.mask) {
    read_score_masks(*options.mask, batch);
  }
  if (options.key_mask) read_key_masks(*options.key_mask, batch);
  for (const input::Sequence& sequence : batch.sequences)
    if (sequence.text && sequence.text->find_first_not_of(" \t\r\n") == std::string::npos)
      warnings.add("empty_text", fmt::format("the text of input \"{}\" is empty", sequence.id));
  if (options.words > 1 && options.words == options.items.size())
    warnings.add("one_word_texts",
                 fmt::format("got {} texts of one word each; put a longer text in quotes", options.words));
  return batch;
}

std::vector<input::Sequence> seeded_inputs(const model::ModelConfig& config, std::size_t count,
                                           std::size_t length, std::size_t target_length) {
  // The C++ standard defines the numbers of this generator, but not those of distributions.
  std::mt19937 random{20170612};
  const auto ids = [&](std::size_t size, std::size_t vocabulary) {
    std::vector<std::int64_t> drawn(size);
    for (std::int64_t& id : drawn) id = static_cast<std::int64_t>(random() % vocabulary);
    return drawn;
  };
  const auto matrix = [&](std::size_t rows, std::size_t columns) {
    OwnedMatrix<float> drawn(rows, columns);
    for (float& value : drawn.values()) value = static_cast<float>(random()) * 0x1p-31F - 1;
    return drawn;
  };
  const PatchGrid& pixels = config.embedding.pixels;
  std::vector<input::Sequence> sequences(count);
  for (input::Sequence& sequence : sequences) {
    if (pixels.present()) {
      sequence = input::make_pixel_sequence(matrix(1, pixels.image_size()).values(), pixels);
      continue;
    }
    if (config.embedding.vocabulary > 0) {
      sequence.ids = ids(length, config.embedding.vocabulary);
    } else {
      sequence.embeddings = matrix(length, config.d_model);
    }
    // Values get separate embeddings if their input width differs from that of the keys. Keys get separate
    // embeddings if values do, or if their input width differs from d_model.
    const bool own_values = config.d_value_input != config.d_key_input;
    if (own_values || config.d_key_input != config.d_model)
      sequence.key_embeddings = matrix(length, config.d_key_input);
    if (own_values) sequence.value_embeddings = matrix(length, config.d_value_input);
    if (!config.decoder) continue;
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->ids = ids(target_length, config.decoder->embedding.vocabulary);
  }
  return sequences;
}

// --- Heads and attention

void add_attention_option(Command& command, SelectionOptions& options) {
  command.add("Selection",
              {{.names = "--attention",
                .target = &options.attention,
                .help = "Replace the attention of the layers of --layers (default: all) by another kind: " +
                        std::string(model::kAttentionKinds) +
                        ", or axial (over the rows and columns of one array --embeddings [N, L, d])",
                .type = "KIND",
                .offered = {"full", "window:", "block:", "strided:", "linear", "axial"}}});
}

std::optional<model::AttentionKind> parse_attention_option(const std::string& option,
                                                           const std::string& kind) {
  if (kind == "axial") return std::nullopt;
  const auto parsed = model::parse_attention_kind(kind);
  if (!parsed)
    fail(Status::usage, "{}: unsupported \"{}\"; known: {}, axial", option, escaped(kind),
         model::kAttentionKinds);
  return parsed;
}

model::Model with_attention_option(const model::Model& model, const SelectionOptions& options) {
  if (options.attention.empty()) return model;
  const auto kind = parse_attention_option("--attention", options.attention);
  if (!kind) return model;
  const std::vector<std::size_t> layers = inspect::select_layers(options, model.config());
  return model.with_attention(*kind, layers);
}

std::optional<analysis::AxialGrid> axial_grid(const SelectionOptions& options, const InputOptions& inputs,
                                              const model::Model& model, input::Batch& batch) {
  if (options.attention != "axial") return std::nullopt;
  if (inputs.items.size() != 1 || inputs.items.front().kind != InputKind::embeddings) {
    fail(Status::usage,
         "--attention axial needs exactly one input, a grid: --embeddings X.npy of shape [N, L, d]");
  }
  return analysis::make_axial(model, batch);
}

}  // namespace attnctl::cli
