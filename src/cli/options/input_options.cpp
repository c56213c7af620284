#include <map>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/options/options.hpp"

namespace attnctl::cli {
namespace {

constexpr const char* kGroup = "Inputs (repeat freely; order is kept)";

enum class ItemOption { text, pair, ids, file, embeddings, pixels, target_text, target_ids };
using ItemOptions = std::map<const CLI::Option*, ItemOption>;

/// Adds an option for inputs. CLI11 calls options in the order of their definition, so inputs are sorted
/// by their order on the command line after parsing.
void add_item(CLI::App& command, ItemOptions& items, ItemOption item, const std::string& name,
              const std::string& type, const std::string& description) {
  CLI::Option* option = command
                            .add_option(
                                name, [](const CLI::results_t&) { return true; }, description)
                            ->type_name(type)
                            ->group(kGroup)
                            ->allow_extra_args(false);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
  items.emplace(option, item);
}

void add_pair(InputOptions& options, bool behind_text, const std::string& text) {
  if (!behind_text || options.items.back().pair)
    fail(Status::usage, "--text-pair goes behind the --text that it makes a pair with");
  options.items.back().pair = text;
}

void collect_items(const CLI::App& command, const ItemOptions& items, InputOptions& options) {
  std::map<const CLI::Option*, std::size_t> used;
  bool behind_text = false;
  for (const CLI::Option* option : command.parse_order()) {
    const auto found = items.find(option);
    if (found == items.end()) continue;
    const std::string& value = option->results().at(used[option]++);
    const auto add = [&](InputItem::Kind kind) { options.items.push_back({kind, value}); };
    switch (found->second) {
      case ItemOption::text:
        add(InputItem::Kind::text);
        break;
      case ItemOption::pair:
        add_pair(options, behind_text, value);
        break;
      case ItemOption::ids:
        add(InputItem::Kind::ids);
        break;
      case ItemOption::file:
        add(InputItem::Kind::file);
        break;
      case ItemOption::embeddings:
        add(InputItem::Kind::embeddings);
        break;
      case ItemOption::pixels:
        add(InputItem::Kind::pixels);
        break;
      case ItemOption::target_text:
        options.targets.push_back({InputItem::Kind::text, value});
        break;
      case ItemOption::target_ids:
        options.targets.push_back({InputItem::Kind::ids, value});
        break;
    }
    behind_text = found->second == ItemOption::text;
  }
}

void collect_when_parsed(CLI::App& command, InputOptions& options, ItemOptions items) {
  command.parse_complete_callback(
      [&command, &options, items = std::move(items)] { collect_items(command, items, options); });
}

void add_text_items(CLI::App& command, ItemOptions& items) {
  add_item(command, items, ItemOption::text, "--text", "S",
           "a text, tokenized as the model's own tokenizer does, special tokens added");
  add_item(command, items, ItemOption::pair, "--text-pair", "S", "behind --text: the second text of a pair");
}

void add_files(CLI::App& command, InputOptions& options, ItemOptions& items, const std::string& objects) {
  add_item(command, items, ItemOption::file, "--input", "FILE",
           ".txt: a text a line; .jsonl: an object a line; .json: one object or an array; each holds " +
               objects + "; .conllu: a sentence each; - is stdin");
  command.add_option("--input-format", options.input_format, "format of --input -")
      ->check(CLI::IsMember({"txt", "jsonl", "json", "conllu"}))
      ->group(kGroup);
}

void add_array_options(CLI::App& command, InputOptions& options) {
  command
      .add_option("--keys", options.keys, "embeddings of the keys (cross-attention), for each --embeddings")
      ->type_name("K.npy")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("--values", options.values, "embeddings of the values, for each --embeddings")
      ->type_name("V.npy")
      ->allow_extra_args(false)
      ->group(kGroup);
  command
      .add_option("--mask", options.mask,
                  "causal, none, or FILE.npy: bool or integer, 1 = may attend; float: added to the scores")
      ->type_name("causal|none|FILE.npy")
      ->group(kGroup);
  command.add_option("--key-mask", options.key_mask, "[batch, m]: 1 = this key is visible")
      ->type_name("FILE.npy")
      ->group(kGroup);
}

ItemOptions add_sequence_items(CLI::App& command, InputOptions& options) {
  ItemOptions items;
  add_text_items(command, items);
  add_item(command, items, ItemOption::ids, "--ids", "101,7592,102", "token ids, used as they are");
  add_files(command, options, items, "\"text\", \"tokens\" or \"ids\"");
  add_item(command, items, ItemOption::embeddings, "--embeddings", "X.npy",
           "[n, d] or [batch, n, d] in place of token embeddings");
  add_item(command, items, ItemOption::pixels, "--pixels", "X.npy",
           "images [batch, channels, height, width] of a model that reads them");
  add_item(command, items, ItemOption::target_text, "--target-text", "S",
           "the decoder's side of the k-th input, the model's start token put before it");
  add_item(command, items, ItemOption::target_ids, "--target-ids", "2,17,9",
           "the decoder's own input, used as it is");
  command
      .add_flag("--truncate", options.truncate,
                "cut texts and ids that are longer than the model's positions, with a warning")
      ->group(kGroup);
  return items;
}

}  // namespace

void add_text_options(CLI::App& command, InputOptions& options) {
  ItemOptions items;
  add_text_items(command, items);
  add_files(command, options, items, "\"text\"");
  collect_when_parsed(command, options, std::move(items));
}

void add_file_options(CLI::App& command, InputOptions& options) {
  ItemOptions items;
  add_files(command, options, items, "\"text\", \"tokens\" or \"ids\"");
  collect_when_parsed(command, options, std::move(items));
}

void add_sequence_options(CLI::App& command, InputOptions& options) {
  collect_when_parsed(command, options, add_sequence_items(command, options));
}

void add_input_options(CLI::App& command, InputOptions& options) {
  ItemOptions items = add_sequence_items(command, options);
  add_array_options(command, options);
  collect_when_parsed(command, options, std::move(items));
}

}  // namespace attnctl::cli
