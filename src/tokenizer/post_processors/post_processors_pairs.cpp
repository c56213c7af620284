#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/post_processors/post_processor_parts.hpp"

// The post-processors of fixed form: [CLS] A [SEP] B [SEP], and <s> A </s> </s> B </s>.
namespace attnctl {
namespace {

struct Ends {
  std::int64_t cls = 0;
  std::int64_t sep = 0;
};

/// ["[SEP]", 102]
std::int64_t read_end(const PartConfig& config, std::string_view key) {
  const PartConfig::Json& pair = config.at(key).node();
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
    config.refuse(key, "expected a token and its id, as [\"[SEP]\", 102]");
  }
  return read_id(config, key, pair[1]);
}

Ends read_ends(const PartConfig& config) {
  return {read_end(config, "cls"), read_end(config, "sep")};
}

std::uint8_t sequence_of(std::size_t text) {
  return text == 0 ? 0 : 1;
}

class BertProcessing final : public PostProcessor {
 public:
  explicit BertProcessing(Ends ends) : ends_(ends) {}

  void process(std::vector<TokenizedText>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::uint8_t sequence = sequence_of(i);
      if (i == 0) push_front(texts[i], {ends_.cls, 0, 0});
      push_back(texts[i], {ends_.sep, sequence, sequence});
    }
  }
  [[nodiscard]] std::size_t added(bool pair) const override { return pair ? 3 : 2; }

 private:
  Ends ends_;
};

class RobertaProcessing final : public PostProcessor {
 public:
  struct Trim {
    bool prefix_space = true;
    const TokenStrings* strings = nullptr;
  };

  RobertaProcessing(Ends ends, std::optional<Trim> trim) : ends_(ends), trim_(trim) {}

  /// All types are 0, those of the tokens too.
  void process(std::vector<TokenizedText>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      TokenizedText& text = texts[i];
      if (trim_) trim_offsets(text, trim_->prefix_space, *trim_->strings);
      std::fill(text.encoding.type_ids.begin(), text.encoding.type_ids.end(), 0);
      push_front(text, {i == 0 ? ends_.cls : ends_.sep, 0, sequence_of(i)});
      push_back(text, {ends_.sep, 0, sequence_of(i)});
    }
  }
  [[nodiscard]] std::size_t added(bool pair) const override { return pair ? 4 : 2; }

 private:
  Ends ends_;
  std::optional<Trim> trim_;
};

}  // namespace

PostProcessorPtr make_bert_processing(const PartConfig& config, const TokenStrings& /*strings*/) {
  // The reference tells the two apart by what they hold, whatever their type says.
  if (config.has("trim_offsets") && config.has("add_prefix_space")) {
    config.refuse("trim_offsets", "unsupported in BertProcessing: it is one of RobertaProcessing");
  }
  return std::make_unique<const BertProcessing>(read_ends(config));
}

PostProcessorPtr make_roberta_processing(const PartConfig& config, const TokenStrings& strings) {
  std::optional<RobertaProcessing::Trim> trim;
  const bool prefix_space = config.boolean("add_prefix_space");
  if (config.boolean("trim_offsets")) trim = RobertaProcessing::Trim{prefix_space, &strings};
  return std::make_unique<const RobertaProcessing>(read_ends(config), trim);
}

}  // namespace attnctl
