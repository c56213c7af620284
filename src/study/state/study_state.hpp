#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "base/text.hpp"
#include "results/results.hpp"
#include "study/measure.hpp"
#include "study/state/block_set.hpp"
#include "study/state/state_io.hpp"

namespace attnctl::study {

/// Names and values that must be equal in all states of one study, such as "batch_tokens" and "4096".
using StudyIdentity = std::vector<std::pair<std::string, std::string>>;

struct StudyHeader {
  StudyIdentity identity = {};
  StudyShape shape = {};
  std::vector<const MeasureRow*> measures = {};
  std::size_t null_models = 0;    // number of random models, for the measures that return evidence for roles
  std::size_t null_shuffles = 0;  // number of shuffles per sentence, for the measures that depend on order
  Value model = {};               // record of the model in JSON documents; model_path replaces its path
  // As given by the user; after a merge, from the state that has the lowest block.
  std::string model_path = {};
  std::vector<std::string> files = {};  // paths of the corpus files

  [[nodiscard]] std::vector<const MeasureRow*> shuffled_measures() const {
    if (null_shuffles == 0) return {};
    return measures_with(&MeasureRow::depends_on_order);
  }
  /// Returns the measures with a property; those with MeasureRow::gives_evidence also run on random models.
  [[nodiscard]] std::vector<const MeasureRow*> measures_with(bool MeasureRow::*property) const {
    std::vector<const MeasureRow*> rows = measures;
    std::erase_if(rows, [&](const MeasureRow* row) { return !(row->*property); });
    return rows;
  }
};

/// The measures of one block or of a whole study, including those on shuffled tokens and random models.
struct StudyMeasures {
  Measures own;       // [StudyHeader::measures]
  Measures shuffled;  // on sentences with shuffled tokens, [shuffled_measures()], merged over all repetitions
  std::vector<Measures> nulls;  // on random models, [null_models, measures that give evidence]

  StudyMeasures() = default;
  /// Creates empty measures or, with `in`, reads them. `header` must outlive them.
  explicit StudyMeasures(const StudyHeader& header, StateReader* in = nullptr) {
    // Reads each measure before the next list is made, so that a short file does not take much memory,
    // whatever number of random models its header promises.
    const auto make = [&](const std::vector<const MeasureRow*>& rows) {
      Measures measures = make_measures(rows, header.shape);
      for (const auto& measure : measures) {
        if (in != nullptr) measure->load(*in);
      }
      return measures;
    };
    own = make(header.measures);
    shuffled = make(header.shuffled_measures());
    for (std::size_t i = 0; i < header.null_models; ++i)
      nulls.push_back(make(header.measures_with(&MeasureRow::gives_evidence)));
  }
  /// Returns all measures, in the order of the state file.
  [[nodiscard]] std::vector<Measure*> all() const {
    std::vector<Measure*> list;
    const auto add = [&list](const Measures& measures) {
      for (const auto& measure : measures) list.push_back(measure.get());
    };
    add(own);
    add(shuffled);
    std::ranges::for_each(nulls, add);
    return list;
  }
  void merge(const StudyMeasures& other) {
    const std::vector<Measure*> measures = all();
    const std::vector<Measure*> others = other.all();
    for (std::size_t i = 0; i < measures.size(); ++i) measures[i]->merge(*others.at(i));
  }
};

/// The state of a study: the merged results of the blocks done so far. Not copyable. The order in which
/// blocks are added or states are merged does not change a byte of the state file.
class StudyState {
 public:
  explicit StudyState(StudyHeader header)
      : header_(std::make_unique<StudyHeader>(std::move(header))), measures_(*header_) {}

  [[nodiscard]] const StudyHeader& header() const { return *header_; }
  [[nodiscard]] const BlockSet& done() const { return done_; }
  /// Returns the number of all blocks, of the corpus and of the probe; nullopt: no run has reached the end.
  [[nodiscard]] std::optional<std::uint64_t> blocks() const { return blocks_; }
  /// Returns "5 of 12 blocks are done", or "5 blocks are done" if the number of all blocks is unknown.
  [[nodiscard]] std::string done_text() const {
    if (blocks_) return fmt::format("{} of {} blocks are done", done_.size(), *blocks_);
    return counted(done_.size(), "block is done", "blocks are done");
  }
  [[nodiscard]] bool complete() const { return blocks_ && done_.size() == *blocks_; }
  [[nodiscard]] const CorpusCounts& counts() const { return counts_; }
  [[nodiscard]] const auto& skipped() const { return skipped_; }
  [[nodiscard]] const std::set<std::string>& kernels() const { return kernels_; }
  [[nodiscard]] std::vector<Warning> warnings() const;

  [[nodiscard]] StudyMeasures make_block_measures() const {
    StudyMeasures measures(*header_);
    for (std::size_t i = 0; i < measures.own.size(); ++i) measures.own[i]->set_context(*measures_.own[i]);
    return measures;
  }
  /// Adds the results of a block. Throws std::logic_error if the block was already added.
  void add(const CorpusBlock& block, const StudyMeasures& measures, const std::vector<Warning>& warnings,
           const std::string& kernel);
  /// Ends the corpus. `warnings` are those of all its texts. Only the shard with block 0 keeps them, because
  /// each shard reads the whole corpus.
  void end_corpus(std::uint64_t blocks, std::uint64_t tokens_hash,
                  const std::vector<Warning>& warnings = {}) {
    blocks_ = blocks;
    tokens_hash_ = tokens_hash;
    if (!done_.contains(0)) return;
    for (const Warning& warning : warnings) warnings_[warning.code] = {0, warning.message, warning.count};
  }

  /// Adds another state. Throws Error(bad_input), with the file names `name` and `other_name`, if the states
  /// belong to different studies, have a block in common, or disagree on the corpus.
  void merge(const StudyState& other, const std::string& name, const std::string& other_name);

  /// Returns the results of all measures, and the roles if the measure `roles` is selected.
  [[nodiscard]] StudyResults finish(Pool& pool, const StudyThresholds& thresholds = {}) const;
  /// If measures have no data, adds a warning or, if --measures was given (`named`), throws Error(bad_input).
  void check_data(bool named, Warnings& warnings) const;

  /// Writes magic, version, length and content of the state, and the XXH64 of the content, then calls
  /// out.prepare(). The caller calls out.commit().
  void write(OutputFile& out) const;
  /// Reads a file of write(). Throws Error(environment) if the file cannot be read, and Error(bad_input) if
  /// it is longer than 2 GiB or not a valid state file of a supported version.
  [[nodiscard]] static StudyState read(const std::filesystem::path& path);
  /// Returns whether a file exists and begins like a file of write().
  [[nodiscard]] static bool is_state(const std::filesystem::path& path);
  /// Reads the bytes of a file of write(). `name` is its escaped name.
  [[nodiscard]] static StudyState parse(std::string_view file, const std::string& name);
  /// Reads the content of a state file, without magic, version, length and checksum.
  explicit StudyState(StateReader& in);

 private:
  /// A warning of the forward pass: the total count, and the message from the block with the lowest number.
  struct BlockWarning {
    std::uint64_t block = std::numeric_limits<std::uint64_t>::max();
    std::string message;
    std::uint64_t count = 0;

    auto parts() { return std::tie(block, message, count); }
    void merge(const BlockWarning& other) {
      if (other.block < block) message = other.message;
      block = std::min(block, other.block);
      count += other.count;
    }
  };
  void trim_skipped() {
    while (skipped_.size() > kListed) skipped_.erase(std::prev(skipped_.end()));
  }
  void save(StateWriter& out) const;

  /// Largest number of bad sentences that are listed; all of them are counted.
  static constexpr std::size_t kListed = 100;

  std::unique_ptr<StudyHeader> header_;  // measures refer to its shape
  StudyMeasures measures_;
  BlockSet done_;
  std::optional<std::uint64_t> blocks_;
  std::uint64_t tokens_hash_ = 0;  // valid if blocks_ is known
  CorpusCounts counts_;
  /// The errors of bad sentences, by block number and index in CorpusBlock::skipped.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> skipped_;
  std::map<std::string, BlockWarning> warnings_;
  std::set<std::string> kernels_;
};

/// Throws Error(bad_input) if the identities differ: FILE: belongs to another study: --seed: got "1", need
/// "2" as in OTHER. FILE is `name`, and OTHER is `wanted_name`. With `any_model`, the studies may have
/// different models and heads.
void require_same_study(const StudyHeader& header, const std::string& name, const StudyHeader& wanted,
                        const std::string& wanted_name, bool any_model = false);

/// Returns the kernels of the BLAS and of attnctl that computed the blocks: "Haswell/avx2+SkylakeX/avx512".
[[nodiscard]] std::string kernel_names(const StudyState& state);

/// Returns the results of a study for output. A warning says if blocks are missing.
[[nodiscard]] Results study_results(const StudyState& state, Pool& pool,
                                    const StudyThresholds& thresholds = {});

struct ComparisonRequest {
  /// Largest number of heads per column, and of changed roles, in text; nullopt: about 40 lines of text.
  std::optional<std::size_t> top = {};
  std::string plot = {};         // COLUMN or TABLE.COLUMN to draw; empty: no picture
  bool without_metrics = false;  // text leaves out differences of the table `heads`
};

/// Returns the names of the heads that have a role in only one of two studies, from their tables `roles`.
[[nodiscard]] std::set<std::string> changed_roles(const Results& a, const Results& b);

/// Joins the results of two studies. The table `differences` has a row for each number of a head, in each
/// table that both studies have; the row has an interval if both numbers have one. If both studies have the
/// table `roles`, the new table `roles` has the roles that heads gained or lost. Heads in only one study are
/// left out, with a warning. Throws Error(bad_input) if no number is in both studies.
[[nodiscard]] Results compare_studies(const Results& a, const Results& b, const ComparisonRequest& request,
                                      Warnings& warnings);

}  // namespace attnctl::study
