#include "input/sentence_stream.hpp"

#include <algorithm>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "input/json_inputs.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kDocumentLimit = std::size_t{1} << 30;

bool is_blank_piece(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

struct SentenceStream::State {
  InputFormat format;
  TextEncoder& encoder;
  const Vocabulary& vocabulary;
  std::optional<TextBlocks> blocks;                // nullopt for .json
  std::optional<nlohmann::ordered_json> document;  // .json
  TextBlock block;                                 // its unread part
  std::uint64_t taken = 0;                         // bytes before `block`
  std::size_t item = 0;                            // of the document

  State(InputFormat file_format, TextEncoder& text_encoder, const Vocabulary& words)
      : format(file_format), encoder(text_encoder), vocabulary(words) {}

  /// Returns the next line, or for treebanks the lines up to a blank one; nullopt at the end of the file.
  [[nodiscard]] std::optional<std::string> take_piece(TextPlace& place) {
    while (true) {
      if (block.text.empty() && !blocks->next(block)) return std::nullopt;
      const std::string_view text = block.text;
      std::size_t end = 0;
      bool blank = true;
      while (end < text.size()) {
        const std::size_t line_end = std::min(text.find('\n', end), text.size() - 1) + 1;
        const bool line_blank = is_blank_piece(text.substr(end, line_end - end));
        end = line_end;
        if (line_blank) break;
        blank = false;
        if (format != InputFormat::conllu) break;
      }
      place = block.place;
      std::string piece = block.text.substr(0, end);
      block.text.erase(0, end);
      block.place.offset += end;
      block.place.line += static_cast<std::uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
      taken += end;
      if (!blank) return piece;
    }
  }

  /// Reads the next piece; nullopt at the end of the file. The sequence is empty if the piece has no
  /// sentence.
  [[nodiscard]] std::optional<CorpusSentence> next_piece() {
    TextPlace place;
    const auto taken_piece = take_piece(place);
    if (!taken_piece) return std::nullopt;
    const std::string& piece = *taken_piece;
    CorpusSentence sentence;
    sentence.where = fmt::format("{}: line {}", place.file, place.line);
    if (format == InputFormat::conllu) {
      require_utf8(piece, place);
      std::vector<ConlluSentence> read;
      const bool marked = place.offset == 0 && piece.starts_with("\xEF\xBB\xBF");
      read_conllu(std::string_view(piece).substr(marked ? 3 : 0), place, read);
      if (read.empty()) return sentence;
      sentence.where = fmt::format("{}: line {}", place.file, read.front().line);
      sentence.sequence = encoder.encode(text_of(read.front()));
      sentence.annotation = std::make_shared<const ConlluSentence>(std::move(read.front()));
    } else if (format == InputFormat::txt) {
      std::vector<TextInput> read;
      read_text_inputs(piece, format, place, read);
      if (!read.empty()) sentence.sequence = encoder.encode(std::move(read.front()));
    } else {
      require_utf8(piece, place);
      for_each_json_input(piece, format, place,
                          [&](const JsonInput& input) { read_object(input, sentence); });
    }
    return sentence;
  }

  /// Returns the next item of a .json file.
  [[nodiscard]] std::optional<CorpusSentence> next_item() {
    const std::size_t count = document->is_array() ? document->size() : 1;
    if (item >= count) return std::nullopt;
    CorpusSentence sentence;
    const std::size_t number = item++;
    const bool one = !document->is_array();
    sentence.where = one ? block.place.file : fmt::format("{}: /{}", block.place.file, number);
    read_object(JsonInput(one ? *document : (*document)[number], sentence.where + (one ? ": " : "")),
                sentence);
    return sentence;
  }

  void read_object(const JsonInput& input, CorpusSentence& sentence) {
    if (!input.has_text()) {
      sentence.sequence = input.sequence(vocabulary);
      return;
    }
    TextInput text = input.text();
    if (input.has_mentions())
      sentence.annotation = std::make_shared<const ConlluSentence>(mentions_of(input, text));
    sentence.sequence = encoder.encode(std::move(text));
  }
};

SentenceStream::SentenceStream(const std::filesystem::path& path, InputFormat format, TextEncoder& encoder,
                               const Vocabulary& vocabulary)
    : state_(std::make_unique<State>(format, encoder, vocabulary)) {
  if (format != InputFormat::json) {
    state_->blocks.emplace(path, block_end(format));
    return;
  }
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "standard input" : path.string();
  const std::string text =
      standard_input ? read_descriptor(STDIN_FILENO, name, kDocumentLimit) : read_file(path, kDocumentLimit);
  state_->block.place.file = escaped(name);
  require_utf8(text, state_->block.place);
  state_->document = parse_json(state_->block.place.file, text);
  state_->taken = text.size();
}

SentenceStream::~SentenceStream() = default;
SentenceStream::SentenceStream(SentenceStream&&) noexcept = default;
SentenceStream& SentenceStream::operator=(SentenceStream&&) noexcept = default;

std::optional<CorpusSentence> SentenceStream::next() {
  std::optional<CorpusSentence> sentence;
  const bool is_text = state_->format == InputFormat::txt || state_->format == InputFormat::conllu;
  do {
    sentence = state_->document ? state_->next_item() : state_->next_piece();
    if (!sentence) return std::nullopt;
    // Skips pieces of a treebank with only comments, and lines of text with only Unicode spaces.
  } while (is_text && sentence->sequence.ids.empty() && !sentence->sequence.text);
  if (sentence->sequence.queries() == 0)
    fail(Status::bad_input, "{}: an empty sequence; need at least one token", sentence->where);
  Batch batch;
  batch.sequences.push_back(std::move(sentence->sequence));
  finish_batch(batch, state_->vocabulary);
  sentence->sequence = std::move(batch.sequences.front());
  return sentence;
}

std::uint64_t SentenceStream::position() const {
  return state_->taken;
}

}  // namespace attnctl
