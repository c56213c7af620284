#include "input/conllu.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::input {
namespace {

std::optional<MentionType> mention_type(std::string_view upos) {
  if (upos.empty() || upos == "_") return std::nullopt;
  if (upos == "PRON" || upos == "DET") return MentionType::pronoun;
  return upos == "PROPN" ? MentionType::proper : MentionType::nominal;
}

constexpr std::size_t kColumns = 10;
enum ConlluColumn : std::size_t { kId, kForm, kUpos = 3, kHead = 6, kDeprel, kMisc = 9 };
using Fields = std::vector<std::string_view>;  // [kColumns], the columns of a row

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string_view misc_value(std::string_view misc, std::string_view name) {
  for (const std::string_view field : split(misc, '|')) {
    if (field.starts_with(name) && field.substr(name.size()).starts_with('='))
      return field.substr(name.size() + 1);
  }
  return {};
}

/// Returns the index of a mention's head word (see read_conllu). The mention's words must be sorted.
std::size_t head_of(const Mention& mention, const std::vector<ConlluWord>& words) {
  for (const std::size_t word : mention.words) {
    const auto head = words[word].head;
    if (head && (*head == 0 || !std::ranges::binary_search(mention.words, *head - 1))) return word;
  }
  return mention.words.back();
}

/// A token of a sentence's text: a single word or a multiword token.
struct SurfaceToken {
  std::string form;
  std::size_t first = 0;  // words [first, last] of the sentence, from 0
  std::size_t last = 0;
  bool space_after = true;
  std::uint64_t line = 0;
};

/// Sets the ranges of the words of a token that has the range `range`. Each word gets its own range if the
/// joined forms of the words are the form of the token, otherwise the whole `range`.
void share(const SurfaceToken& surface, tokenizer::TextRange range, ConlluSentence& sentence) {
  std::string together;
  for (std::size_t w = surface.first; w <= surface.last; ++w) together += sentence.words[w].word.form;
  const bool adds_up = together == surface.form;
  for (std::size_t w = surface.first; w <= surface.last; ++w) {
    TextWord& word = sentence.words[w].word;
    word.range = range;
    if (!adds_up) continue;
    word.range.end =
        range.begin + static_cast<std::uint32_t>(tokenizer::unicode::count_code_points(word.form));
    range.begin = word.range.end;
  }
}

std::optional<std::size_t> parse_id(std::string_view text, std::size_t least = 1) {
  if (text.size() > 1 && text.starts_with('0')) return std::nullopt;
  const auto number = parse_number(text);
  const bool fits = number && *number >= least && *number < std::numeric_limits<std::uint32_t>::max();
  return fits ? number : std::nullopt;
}

class SentenceReader {
 public:
  SentenceReader(const std::string& file, std::uint64_t& line) : file_(file), line_(line) {}

  /// Removes the lines up to the next blank line from `block` and appends their sentence, if there is one.
  void read(std::string_view& block, std::vector<ConlluSentence>& sentences) {
    for (; !block.empty(); ++line_) {
      const std::string_view line = take_line(block);
      if (line.find_first_not_of(" \t") == std::string_view::npos) break;
      line.starts_with('#') ? read_comment(line) : read_row(line);
    }
    if (!sentence_.words.empty() || range_end_ > 0) sentences.push_back(finish());
    ++line_;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse_at(std::uint64_t line, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Status::bad_input, "{}: line {}: {}", file_, line, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_at(line_, format, std::forward<Args>(args)...);
  }

  void read_comment(std::string_view line) {
    if (!sentence_.words.empty() || range_end_ > 0)
      refuse("got a comment after the words of a sentence; put a blank line between sentences");
    line.remove_prefix(1);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = trimmed(line.substr(0, equals));
    std::string_view value = line.substr(equals + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (key == "sent_id") sentence_.id = trimmed(value);
    if (key == "text") text_ = value;
  }

  void read_row(std::string_view line) {
    const Fields fields = split(line, '\t');
    if (fields.size() != kColumns)
      refuse("got {}, need {}, separated by tabs", counted(fields.size(), "column"), kColumns);
    for (const ConlluColumn column : {kId, kForm, kHead, kDeprel}) {
      if (fields[column].empty()) refuse("column {} is empty, need a value or _", column + 1);
    }
    const std::string_view id = fields[kId];
    if (id.find('-') != std::string_view::npos) return read_range(fields, id);
    if (id.find('.') != std::string_view::npos) {
      check_empty_node(id);
      return read_entities(fields, sentence_.words.size());
    }
    const auto number = parse_id(id);
    if (!number)
      refuse("ID: got {}, need a number, a range such as 3-4, or an empty node such as 8.1", in_quotes(id));
    read_word(fields, *number);
  }

  void read_word(const Fields& fields, std::size_t id) {
    const std::size_t expected = sentence_.words.size() + 1;
    if (id != expected) refuse("ID: got {}, need {}", id, expected);
    if (sentence_.words.empty()) sentence_.line = line_;
    ConlluWord word;
    word.word.form = fields[kForm];
    word.upos = fields[kUpos];
    word.deprel = fields[kDeprel];
    word.head = read_head(fields[kHead]);
    sentence_.words.push_back(std::move(word));
    lines_.push_back(line_);
    read_entities(fields, id - 1);
    if (id > range_end_) add_surface(fields, id, id);
  }

  void read_range(const Fields& fields, std::string_view id) {
    const std::size_t dash = id.find('-');
    const auto first = parse_id(id.substr(0, dash));
    const auto last = parse_id(id.substr(dash + 1));
    if (!first || !last) refuse("ID: got {}, need a range such as 3-4", in_quotes(id));
    if (*first > *last) refuse("ID: got the range {}, which is reversed", in_quotes(id));
    if (*first <= range_end_)
      refuse("ID: got the range {}, need one that begins after {}, the end of the last range", in_quotes(id),
             range_end_);
    const std::size_t expected = sentence_.words.size() + 1;
    if (*first != expected)
      refuse("ID: got the range {}, need one that begins at {}", in_quotes(id), expected);
    range_end_ = *last;
    add_surface(fields, *first, *last);
  }

  /// Adds a token with the words of IDs `first` to `last`, which count from 1.
  void add_surface(const Fields& fields, std::size_t first, std::size_t last) {
    const bool space_after = misc_value(fields[kMisc], "SpaceAfter") != "No";
    surfaces_.push_back({std::string(fields[kForm]), first - 1, last - 1, space_after, line_});
  }

  void check_empty_node(std::string_view id) const {
    const std::size_t dot = id.find('.');
    const auto before = parse_id(id.substr(0, dot), 0);
    const auto number = parse_id(id.substr(dot + 1));
    if (!before || !number) refuse("ID: got {}, need an empty node such as 8.1", in_quotes(id));
    if (*before != sentence_.words.size())
      refuse("ID: got the empty node {0} after word {1}, need {1}.1, {1}.2, ...", in_quotes(id),
             sentence_.words.size());
  }

  /// Reads the brackets of Entity= in MISC, as in CorefUD and GUM. "(e1-..." opens a mention of entity e1 at
  /// word `next` (from 0). "e1)" closes the open mention of e1 that was opened last; the last word read is
  /// the last word of the mention. "(e1-...)" opens and closes a mention. "(e1[1/2]-..." opens part 1 of a
  /// mention with gaps. Ignores the text between a "-" and the next bracket, and values without brackets.
  void read_entities(const Fields& fields, std::size_t next) {
    std::string_view value = misc_value(fields[kMisc], "Entity");
    if (value.find_first_of("()") == std::string_view::npos) return;
    while (!value.empty()) {
      const bool opens = value.starts_with('(');
      if (opens) value.remove_prefix(1);
      const std::size_t stop = std::min(value.find_first_of("()"), value.size());
      const std::string_view label = value.substr(0, std::min(value.find('-'), stop));
      const bool closes = stop < value.size() && value[stop] == ')';
      if (label.empty()) refuse("MISC: Entity: a bracket has no entity, need for example (e1)");
      if (!opens && !closes)
        refuse("MISC: Entity: {} has no bracket that opens or closes a mention", in_quotes(value));
      value.remove_prefix(closes ? stop + 1 : stop);
      if (opens) open_.push_back({std::string(label), next});
      if (closes) close_mention(label);
    }
  }

  void close_mention(std::string_view label) {
    const auto open =
        std::ranges::find(open_.rbegin(), open_.rend(), label, &decltype(open_)::value_type::first);
    if (open == open_.rend())
      refuse("MISC: Entity: the mention {} is closed but was not opened", in_quotes(label));
    const std::size_t first = open->second;
    open_.erase(std::next(open).base());
    const std::size_t bracket = std::min(label.find('['), label.size());
    const std::string_view entity = label.substr(0, bracket);
    const bool is_later_part = bracket < label.size() && !label.substr(bracket + 1).starts_with("1/");
    std::vector<Mention>& mentions = sentence_.mentions;
    if (!is_later_part) mentions.emplace_back().entity = entity;
    const auto mention = std::ranges::find(mentions.rbegin(), mentions.rend(), entity, &Mention::entity);
    if (mention == mentions.rend())
      refuse("MISC: Entity: found a later part of the mention {}, but no first part", in_quotes(label));
    for (std::size_t word = first; word < sentence_.words.size(); ++word) mention->words.push_back(word);
  }

  /// Drops mentions without words, and completes and sorts the others. Throws if a mention is not closed.
  void finish_mentions() {
    if (!open_.empty())
      refuse("MISC: Entity: the mention {} is not closed in its sentence", in_quotes(open_.back().first));
    std::vector<Mention>& mentions = sentence_.mentions;
    std::erase_if(mentions, [](const Mention& mention) { return mention.words.empty(); });
    for (Mention& mention : mentions) {
      std::ranges::sort(mention.words);
      mention.head = head_of(mention, sentence_.words);
      mention.type = mention_type(sentence_.words[mention.head].upos);
    }
    std::ranges::stable_sort(mentions, [](const Mention& a, const Mention& b) {
      return a.words.front() != b.words.front() ? a.words.front() < b.words.front()
                                                : a.words.back() > b.words.back();
    });
  }

  [[nodiscard]] std::optional<std::uint32_t> read_head(std::string_view head) const {
    if (head == "_") return std::nullopt;
    const auto number = parse_id(head, 0);
    if (!number) refuse("HEAD: got {}, need a word's number, 0 or _", in_quotes(head));
    return static_cast<std::uint32_t>(*number);
  }

  ConlluSentence finish() {
    if (range_end_ > sentence_.words.size())
      refuse("the sentence has {}, but a range of IDs ends at {}", counted(sentence_.words.size(), "word"),
             range_end_);
    check_heads();
    place_words();
    finish_mentions();
    return std::move(sentence_);
  }

  /// Sets the text of the sentence, and the ranges of its words in the text.
  void place_words() {
    sentence_.text = text_.value_or("");
    for (std::size_t i = 0; !text_ && i < surfaces_.size(); ++i) {
      sentence_.text += surfaces_[i].form;
      if (surfaces_[i].space_after && i + 1 < surfaces_.size()) sentence_.text += ' ';
    }
    std::string_view rest = sentence_.text;
    std::uint32_t place = 0;  // number of code points before `rest`
    const auto take = [&](std::size_t bytes) {
      const std::uint32_t begin = place;
      place += static_cast<std::uint32_t>(tokenizer::unicode::count_code_points(rest.substr(0, bytes)));
      rest.remove_prefix(bytes);
      return tokenizer::TextRange{begin, place};
    };
    const auto skip_white_space = [&] {
      const tokenizer::TextRange space = take(tokenizer::unicode::white_space_end(rest, 0));
      return space.begin < space.end;
    };
    for (const SurfaceToken& surface : surfaces_) {
      if (!rest.starts_with(surface.form)) {
        refuse_at(surface.line, "FORM: got {} where the text continues with {}; words and text must agree",
                  in_quotes(surface.form), in_quotes(rest));
      }
      share(surface, take(surface.form.size()), sentence_);
      if (surface.space_after && !skip_white_space() && !rest.empty()) {
        refuse_at(surface.line,
                  "no space follows {} in the text; add the space to the text, or SpaceAfter=No to MISC",
                  in_quotes(surface.form));
      }
    }
    skip_white_space();
    if (!rest.empty())
      refuse_at(surfaces_.back().line, "the text continues with {} after the last word", in_quotes(rest));
  }

  void check_heads() const {
    const std::vector<ConlluWord>& words = sentence_.words;
    // For each word, 1 + the index of the word where the walk that visited it started; 0: not visited.
    std::vector<std::size_t> walk(words.size(), 0);
    for (std::size_t start = 0; start < words.size(); ++start) {
      std::size_t at = start;
      while (walk[at] == 0) {
        walk[at] = start + 1;
        const std::uint32_t head = words[at].head.value_or(0);
        if (head > words.size())
          refuse_at(lines_[at], "HEAD: got {}, but the sentence has {}", head, counted(words.size(), "word"));
        if (head == 0) break;
        if (walk[head - 1] == start + 1)
          refuse_at(lines_[at], "HEAD: got {}, which makes a cycle of heads", head);
        at = head - 1;
      }
    }
  }

  const std::string& file_;
  std::uint64_t& line_;
  ConlluSentence sentence_;
  std::optional<std::string> text_;  // value of "# text"
  std::vector<SurfaceToken> surfaces_;
  std::vector<std::uint64_t> lines_;  // line number of each word
  // The label ("e1" or "e1[1/2]") and the first word of each mention of Entity= that is not closed yet.
  std::vector<std::pair<std::string, std::size_t>> open_;
  std::size_t range_end_ = 0;  // ID of the last word of the latest multiword token; 0: none yet
};

}  // namespace

TextInput text_of(const ConlluSentence& sentence) {
  TextInput input{sentence.id, sentence.text, std::nullopt, std::vector<TextWord>()};
  for (const ConlluWord& word : sentence.words) input.words->push_back(word.word);
  return input;
}

bool begins_conllu(std::string_view line) {
  if (line.starts_with("# ")) {
    line.remove_prefix(2);
    const std::string_view key = line.substr(0, line.find(' '));
    return key == "newdoc" || key == "newpar" || line.substr(key.size()).starts_with(" = ");
  }
  const Fields fields = split(line, '\t');
  return fields.size() == kColumns && parse_number(fields[kId].substr(0, fields[kId].find('-')));
}

void read_conllu(std::string_view block, const TextPlace& place, std::vector<ConlluSentence>& sentences) {
  require_utf8(block, place);
  skip_byte_order_mark(block, place);
  std::uint64_t line = place.line;
  while (!block.empty()) SentenceReader(place.file, line).read(block, sentences);
}

}  // namespace attnctl::input
