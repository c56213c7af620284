#include "attnctl/base/error.hpp"
#include "attnctl/base/mapped_file.hpp"
#include "attnctl/tokenizer/vocabulary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

// The vocabularies of a model's directory. tokenizer.json is read by SAX: a tree of 128,000 entries would
// take three times as long.
namespace attnctl {
namespace {

using nlohmann::json;

constexpr std::size_t kFileLimit = std::size_t{256} << 20;
constexpr std::int64_t kLargestId = 16'777'215;
constexpr const char* kElement = "[]";

/// What a vocabulary file says, in any order of ids.
struct Entries {
  std::string file;
  std::vector<std::string> tokens;
  std::set<std::int64_t> special;

  void put(std::int64_t id, std::string token) {
    if (id < 0 || id > kLargestId) {
      fail(Status::bad_input, "{}: token \"{}\": got an id outside 0 to {}", file, escaped(token),
           kLargestId);
    }
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens.size()) tokens.resize(index + 1);
    tokens[index] = std::move(token);
  }
};

/// Collects /model/vocab (an object of ids, or Unigram's array of [token, score]) and /added_tokens; with
/// `flat` the document itself is the object of ids (vocab.json).
class VocabularySax final : public nlohmann::json_sax<json> {
 public:
  VocabularySax(Entries& entries, bool flat) : entries_(entries), flat_(flat) {}

  bool null() override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool boolean(bool value) override {
    if (in_added_token() && path_.back() == "special") added_special_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<std::int64_t>(std::min<number_unsigned_t>(value, kLargestId + 1)));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    if (in_vocabulary_object()) {
      fail(Status::bad_input, "{}: token \"{}\": got id {}, need an integer", entries_.file,
           escaped(path_.back()), escaped(text));
    }
    return true;
  }
  bool string(string_t& value) override {
    if (in_added_token() && path_.back() == "content") added_content_ = value;
    const bool unigram =
        path_.size() == 4 && path_[0] == "model" && path_[1] == "vocab" && path_[3] == kElement;
    if (unigram) entries_.put(static_cast<std::int64_t>(entries_.tokens.size()), value);
    return true;
  }
  bool start_object(std::size_t /*size*/) override {
    path_.emplace_back();
    return true;
  }
  bool key(string_t& value) override {
    path_.back() = value;
    return true;
  }
  bool end_object() override {
    path_.pop_back();
    if (path_.size() == 2 && path_[0] == "added_tokens" && added_id_ >= 0) {
      if (added_special_) entries_.special.insert(added_id_);
      entries_.put(std::exchange(added_id_, -1), std::exchange(added_content_, {}));
      added_special_ = false;
    }
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    path_.emplace_back(kElement);
    return true;
  }
  bool end_array() override {
    path_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*last*/, const json::exception& error) override {
    fail(Status::bad_input, "{}: @byte {}: not valid JSON: {}", entries_.file, position,
         escaped(error.what()));
  }

 private:
  bool number(std::int64_t value) {
    if (in_vocabulary_object()) entries_.put(value, path_.back());
    if (in_added_token() && path_.back() == "id") added_id_ = value;
    return true;
  }
  [[nodiscard]] bool in_vocabulary_object() const {
    if (flat_) return path_.size() == 1;
    return path_.size() == 3 && path_[0] == "model" && path_[1] == "vocab" && path_[2] != kElement;
  }
  [[nodiscard]] bool in_added_token() const {
    return path_.size() == 3 && path_[0] == "added_tokens" && path_[1] == kElement;
  }

  Entries& entries_;
  bool flat_;
  std::vector<std::string> path_;  // the key of each open object, "[]" of each open array
  std::int64_t added_id_ = -1;
  std::string added_content_;
  bool added_special_ = false;
};

void read_json_entries(Entries& entries, const std::filesystem::path& path, bool flat) {
  entries.file = escaped(path.string());
  const std::string text = read_file(path, kFileLimit);
  VocabularySax sax(entries, flat);
  json::sax_parse(text, &sax);
}

void read_lines(Entries& entries, const std::filesystem::path& path) {
  entries.file = escaped(path.string());
  const std::string text = read_file(path, kFileLimit);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    entries.put(static_cast<std::int64_t>(entries.tokens.size()), std::string(line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

/// special_tokens_map.json: {"sep_token": "[SEP]", "eos_token": {"content": "</s>", ...}, ...}.
void read_special_tokens(Vocabulary& vocabulary, const std::filesystem::path& path) {
  const json map = json::parse(read_file(path, kFileLimit), nullptr, false);
  if (!map.is_object()) fail(Status::bad_input, "{}: not a JSON object", escaped(path.string()));
  const auto mark = [&](const std::string& role, const json& entry) {
    const json& content = entry.is_object() && entry.contains("content") ? entry["content"] : entry;
    if (!content.is_string()) return;
    const auto id = vocabulary.id(content.get_ref<const std::string&>());
    if (!id) return;
    vocabulary.mark_special(*id);
    if (role == "sep_token" || role == "eos_token") vocabulary.mark_separator(*id);
  };
  for (const auto& [role, entry] : map.items()) {
    if (entry.is_array()) {
      for (const json& each : entry) mark(role, each);
    } else {
      mark(role, entry);
    }
  }
}

}  // namespace

Vocabulary read_vocabulary(const std::filesystem::path& directory) {
  const auto exists = [&](const char* name) { return std::filesystem::exists(directory / name); };
  Entries entries;
  if (exists("tokenizer.json")) {
    read_json_entries(entries, directory / "tokenizer.json", false);
  } else if (exists("vocab.txt")) {
    read_lines(entries, directory / "vocab.txt");
  } else if (exists("vocab.json")) {
    read_json_entries(entries, directory / "vocab.json", true);
  } else {
    return {};
  }
  Vocabulary vocabulary(std::move(entries.tokens), std::move(entries.special));
  for (const std::string_view token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (const auto id = vocabulary.id(token)) vocabulary.mark_special(*id);
  }
  if (exists("special_tokens_map.json"))
    read_special_tokens(vocabulary, directory / "special_tokens_map.json");
  return vocabulary;
}

}  // namespace attnctl
