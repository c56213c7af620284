#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "results/result.hpp"
#include "study/measure.hpp"

namespace attnctl {

/// What must agree for states to be parts of one study: names and values in their order ("weights": a hash,
/// "batch-tokens": "4096", ...). The first that differs is what a refusal names.
using StudyIdentity = std::vector<std::pair<std::string, std::string>>;

/// What a study is of, apart from its numbers.
struct StudyHeader {
  StudyIdentity identity;
  StudyShape shape;
  std::vector<const MeasureRow*> measures;
  std::size_t null_models = 0;     // random ones, for the measures that roles are told by
  std::size_t null_shuffles = 0;   // of every sentence, for the measures that look where tokens stand
  Value model;                     // the record of documents, without where the model lies
  std::string model_path;          // as given; of several shards the one with the lowest block
  std::vector<std::string> files;  // likewise

  /// Those of `measures` that random models are shown to.
  [[nodiscard]] std::vector<const MeasureRow*> null_measures() const;
  /// Those that shuffled sentences are shown to; none where there are no such.
  [[nodiscard]] std::vector<const MeasureRow*> shuffled_measures() const;
};

/// A bad sentence that was left out, by its block and place there.
using SkippedKey = std::pair<std::uint64_t, std::uint64_t>;

/// The state of a study: what the blocks done so far came to. Not copyable; merges and files give the same
/// bytes whatever the order.
class StudyState {
 public:
  static constexpr std::size_t kListed = 100;  // bad sentences that are listed; all are counted

  explicit StudyState(StudyHeader header);

  [[nodiscard]] const StudyHeader& header() const { return *header_; }
  [[nodiscard]] bool has(std::uint64_t block) const { return done_.contains(block); }
  [[nodiscard]] std::size_t blocks_done() const { return done_.size(); }
  /// How many blocks the corpus has; known once somebody has read it to its end.
  [[nodiscard]] std::optional<std::uint64_t> blocks() const { return blocks_; }
  [[nodiscard]] bool complete() const { return blocks_ && done_.size() == *blocks_; }
  /// The lowest blocks that are missing, at most `most`.
  [[nodiscard]] std::vector<std::uint64_t> missing(std::size_t most) const;
  [[nodiscard]] const CorpusCounts& counts() const { return counts_; }
  [[nodiscard]] const std::map<SkippedKey, std::string>& skipped() const { return skipped_; }
  [[nodiscard]] const std::set<std::string>& kernels() const { return kernels_; }
  [[nodiscard]] std::vector<Warning> warnings() const;

  /// New empty measures of this study, for one block.
  [[nodiscard]] std::vector<std::unique_ptr<Measure>> make_measures() const;
  /// For the next block, when they have looked at what there is.
  [[nodiscard]] std::vector<std::unique_ptr<Measure>> make_block_measures() const;
  [[nodiscard]] std::vector<std::unique_ptr<Measure>> make_null_measures() const;
  [[nodiscard]] std::vector<std::unique_ptr<Measure>> make_shuffled_measures() const;
  /// Takes in what the block that is added next gave on a random model.
  void add_null(std::size_t model, const std::vector<std::unique_ptr<Measure>>& measures);
  /// The same of its shuffled sentences, all repetitions together.
  void add_shuffled(const std::vector<std::unique_ptr<Measure>>& measures);
  /// Takes in what one block gave. Throws std::logic_error where it was done before.
  void add(const CorpusBlock& block, const std::vector<std::unique_ptr<Measure>>& measures,
           const std::vector<Warning>& warnings, const std::string& kernel);
  /// The corpus ended: so many blocks, and what its tokens hash to.
  void end_corpus(std::uint64_t blocks, std::uint64_t tokens_hash);

  /// Throws Error(bad_input) where the states are of unlike studies, have a block in common, or disagree on
  /// the corpus; `name` and `other_name` are their files.
  void merge(const StudyState& other, const std::string& name, const std::string& other_name);

  /// Measures in their order, each finished by one thread of the pool.
  [[nodiscard]] StudyResults finish(Pool& pool) const;

  /// Writes magic, version, length, content and the XXH64 of the content, little-endian, and commits the
  /// file.
  void write(OutputFile& out) const;
  void write(const std::filesystem::path& path) const;
  [[nodiscard]] static StudyState read(const std::filesystem::path& path);

 private:
  /// A warning of the pass: its count, and the message of its lowest block.
  struct Told {
    std::uint64_t block = 0;
    std::string message;
    std::uint64_t count = 0;
  };
  void tell(const std::string& code, const Told& told);
  void trim_skipped();
  void save(StateWriter& out) const;
  void load(StateReader& in);

  std::unique_ptr<StudyHeader> header_;  // measures refer to its shape
  std::vector<std::unique_ptr<Measure>> measures_;
  std::vector<std::vector<std::unique_ptr<Measure>>> nulls_;  // [null_models, null_measures()]
  std::vector<std::unique_ptr<Measure>> shuffled_;            // [shuffled_measures()]
  std::set<std::uint64_t> done_;
  std::optional<std::uint64_t> blocks_;
  std::uint64_t tokens_hash_ = 0;  // where blocks_ is known
  CorpusCounts counts_;
  std::map<SkippedKey, std::string> skipped_;
  std::map<std::string, Told> warnings_;
  std::set<std::string> kernels_;
};

/// Throws Error(bad_input) at the first field that differs: "FILE: weights: got A, need B as in OTHER".
void require_same_study(const StudyIdentity& identity, const std::string& name, const StudyIdentity& wanted,
                        const std::string& wanted_name);

}  // namespace attnctl
