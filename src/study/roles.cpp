#include <stdexcept>

#include <fmt/ranges.h>

#include "base/numbers.hpp"
#include "study/measure.hpp"

// The rules of the roles, the measure `roles`, and the output of the roles.
namespace attnctl::study {
namespace {

// clang-format off
constexpr std::array kRows = {
    //      name               letter metric              least margin above unless      clusters               fewest cases
    RoleRow{"induction",       'I', "probe.induction",      0.3, 0,   true,  "",           "sequences"},
    RoleRow{"duplicate-token", 'D', "probe.duplicate",      0.3, 0,   true,  "",           "sequences"},
    RoleRow{"syntactic",       'Y', "relation_accuracy",    0,   0.1, true,  "",           "groups of sentences", kFewestCases, "word pairs"},
    RoleRow{"coreferent",      'C', "coreference_accuracy", 0,   0.1, true,  "",           "groups of sentences", kFewestCases, "mentions"},
    RoleRow{"rare-token",      'R', "rare.weight",          0.5, 0.1},
    RoleRow{"positional",      'P', "roles.positional",     0.9},
    RoleRow{"separator",       'E', "roles.separator",      0.5},
    RoleRow{"sink",            'S', "roles.sink",           0.5},
    RoleRow{"local",           'L', "roles.local",          0.5, 0.1, true,  "positional"},
    RoleRow{"broad",           'B', "roles.broad",          0.9, 0,   false},
};
// clang-format on

// The interval of a role must be above its null and its shuffled score by more than this value, because
// weights are rounded to float32.
constexpr double kRounding = 1e-6;

constexpr std::uint64_t kFewestClusters = 10;

const RoleRow& role_of(const RoleEvidence& evidence) {
  const auto* const row = std::ranges::find(kRows, evidence.role, &RoleRow::name);
  if (row == kRows.end()) throw std::logic_error("there is evidence for an unknown role");
  return *row;
}

/// Returns the number of cases that a rule requires, as text: "10 sentences".
std::string cases_of(const RoleRow& row) {
  const std::string clusters = fmt::format("{} {}", kFewestClusters, row.clusters);
  return row.fewest == 0 ? clusters : fmt::format("{} {} in {}", row.fewest, row.cases, clusters);
}

/// The roles of a head, in the order of role_rows().
using HeadRoles = std::vector<const HeadRole*>;

/// Returns the cells of the columns detail, score, null, shuffled, random, low and high.
std::vector<Cell> evidence_cells(const RoleEvidence& evidence) {
  return row_of(text_cell(evidence.detail), evidence.score, evidence.null, evidence.shuffled, evidence.random,
                interval_cells(evidence.estimate));
}

std::vector<std::vector<Cell>> role_result_rows(const std::vector<HeadRoles>& heads, const StudyShape& shape,
                                                const std::string& none) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (heads[h].empty())
      rows.push_back(row_of(shape.head_cells(h), Cell(), evidence_cells({}), Cell(), none));
    for (const HeadRole* const role : heads[h]) {
      const RoleEvidence& evidence = role->evidence;
      std::string rule = rule_of(*role->row, role->tests);
      if (role->row->above_null && evidence.shuffled) rule += "; interval above shuffled";
      if (role->row->above_null && evidence.random) rule += "; score above random";
      rows.push_back(
          row_of(shape.head_cells(h), role->row->name, evidence_cells(evidence), evidence.count, rule));
    }
  }
  return rows;
}

Table strongest(std::vector<HeadRole> roles, const StudyShape& shape) {
  constexpr std::size_t most = 5;  // rows per role
  std::ranges::stable_sort(
      roles, {}, [](const HeadRole& role) { return std::pair(role.row, -role.evidence.score.value_or(0)); });
  std::map<const RoleRow*, std::size_t> shown;
  std::vector<std::vector<Cell>> rows;
  for (const auto& [row, evidence, tests] : roles) {
    if (++shown[row] > most) continue;
    RoleEvidence used = evidence;
    if (!row->above_null) used.random = std::nullopt;  // the rule does not compare with it
    rows.push_back(row_of(std::string(1, row->letter), row->name, shape.heads[evidence.head].name,
                          evidence_cells(used), used.count));
  }
  return make_table(
      "strongest",
      {"", "role", "head", "detail", "score", "null", "shuffled", "random", "low", "high", "count"},
      std::move(rows));
}

std::string letters_of(const HeadRoles& roles) {
  std::string letters;
  for (const HeadRole* const role : roles) {
    if (letters.empty() || letters.back() != role->row->letter) letters += role->row->letter;
  }
  return letters.empty() ? "." : letters;
}

/// Returns a heatmap [layers, heads]: the score of each head's first role, and the letters of all its roles.
HeatmapPage role_page(const std::vector<HeadRoles>& heads, const StudyShape& shape,
                      std::vector<std::string> legend) {
  const HeadGrid grid(shape);
  const Shape size = {grid.layers.size(), grid.columns.size()};
  std::vector<double> scores(size[0] * size[1], kUndefined);
  std::vector<std::string> texts(scores.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    texts[grid.cells[h]] = letters_of(heads[h]);
    if (!heads[h].empty()) scores[grid.cells[h]] = heads[h].front()->evidence.score.value_or(0);
  }
  return {.title = "Roles of Heads",
          .scale = {.diverging = false, .low = 0, .high = 1, .label = "Score of the first letter's role"},
          .heatmaps = {{"Roles", "Head", "Layer", grid.columns, grid.layers,
                        make_tensor(size, std::move(scores))}},
          .cell_texts = std::move(texts),
          .legend = std::move(legend)};
}

constexpr std::size_t kNear = 2;  // largest distance of a local key, in tokens

constexpr auto kRoleDefinitions = std::to_array<Definition>({
    {"roles.positional", "", "[0, 1]", "the mean of 1 / visible keys: a largest weight on a random key",
     "share of rows whose largest weight is at the best offset (-8 to 8 tokens), over the rows that may "
     "attend to the key at that offset and to another key",
     "Voita et al. 2019, section 5.1"},
    {"roles.sink", "", "[0, 1]", "the mean of 1 / visible keys: uniform attention",
     "mean weight on position 0, over the later queries that may attend to it and to another key",
     "Xiao et al. 2023"},
    {"roles.separator", "", "[0, 1]", "the mean of target keys / visible keys: uniform attention",
     "mean weight on a special token that is not at position 0, over the rows that may attend to it and to "
     "another key",
     "Clark et al. 2019, section 3.2"},
    {"roles.local", "", "[0, 1]", "the mean of near keys / visible keys: uniform attention",
     "mean weight on keys at most 2 tokens away, over the rows that may attend to two or more keys, at least "
     "one of them farther away",
     "Clark et al. 2019, section 3.1; Raganato and Tiedemann 2018"},
    {"roles.broad", "", "[0, 1]", "1: uniform attention",
     "mean of entropy / ln(visible keys), over the rows that may attend to two or more keys",
     "Clark et al. 2019, section 3.3"},
    {"role", "", "", "", "behaviour of the head; empty if it has no role"},
    {"detail", "", "", "", "what the role refers to: an offset, a token, a relation or a type of mention"},
    {"roles.score", "", "[0, 1]", "",
     "how strongly the head shows the role (attnctl explain ROLE, such as explain sink, defines it)"},
    {"roles.count", "", "from 0", "", "number of rows, word pairs or mentions in the score"},
    {"roles.random", "", "", "",
     "null + largest (score - null) of any head of the random models (--null-model)"},
    {"rule", "", "", "", "the rule that the head meets, or the roles that were tested"},
});

/// Sums for the roles of one head (RatioSums), or for the nulls of one panel (SentenceTerm).
template <typename Sums>
struct RoleSums {
  // by offset (key position minus query position), from -8 to 8
  std::array<Sums, analysis::kOffsetCount> offsets;
  Sums first, near, entropy;
  std::map<std::int64_t, Sums> specials;  // by the id of the special token

  auto parts() { return std::tie(offsets, first, near, entropy, specials); }
  /// Adds the nulls and the row counts of a panel to those of its sentence.
  void add(const RoleSums<SentenceTerm>& nulls, std::size_t sequence) {
    const auto add_term = [&](Sums& to, const SentenceTerm& from) {
      SentenceTerm& term = to.open(sequence);
      term.null += from.null;
      term.rows += from.rows;
    };
    for (std::size_t i = 0; i < analysis::kOffsetCount; ++i) add_term(offsets[i], nulls.offsets[i]);
    add_term(first, nulls.first);
    add_term(near, nulls.near);
    add_term(entropy, nulls.entropy);
    for (const auto& [id, term] : nulls.specials) add_term(specials[id], term);
  }
};

/// Values of a panel that do not depend on the attention weights.
struct RoleNulls {
  /// Null and row count of each term, over those of its rows that see more than one key. Each sum is 0.
  RoleSums<SentenceTerm> terms;
  std::vector<double> log_keys;  // [rows of the panel], ln(visible keys); 0 if one key is visible
};

bool sees_far_keys(const analysis::PatternRow& row, const forward::VisibleKeys& visible) {
  const forward::KeyRange near = analysis::keys_near(row, kNear);
  return visible.count(row.query, near.first, near.last) < visible.count(row.query);
}

/// Returns the index of the offset with the largest share of rows. Of equal shares, prefers the smaller
/// distance, then the negative offset.
std::optional<std::size_t> best_offset(const RoleSums<RatioSums>& head) {
  std::optional<std::size_t> best;
  for (std::size_t distance = 0; distance <= kFarthest; ++distance) {
    for (const std::size_t i : {kFarthest - distance, kFarthest + distance}) {
      const auto share = head.offsets[i].mean();
      if (share && (!best || *share > *head.offsets[*best].mean())) best = i;
    }
  }
  return best;
}

class RolesMeasure final : public PerHead<RoleSums<RatioSums>, TokenNames> {
 public:
  using PerHead::PerHead;

  void begin(const StudyBlock& block) override {
    for (const input::Sequence& sequence : block.corpus.batch.sequences)
      specials_.push_back(special_positions(sequence, 1, names_));
  }
  void panel(const StudyPanel& panel) override {
    const std::size_t sequence = panel.panel.sequence;
    const RoleNulls& nulls = nulls_.of(panel, [&] { return this->nulls(panel); });
    RoleSums<RatioSums>& sums = states_[panel.head];
    sums.add(nulls.terms, sequence);
    double& first = sums.first.open(sequence).sum;
    double& near_keys = sums.near.open(sequence).sum;
    double& entropy = sums.entropy.open(sequence).sum;
    for (std::size_t r = 0; r < panel.rows.size(); ++r) {
      const analysis::PatternRow& row = panel.rows[r];
      if (nulls.log_keys[r] == 0) continue;
      // Wraps around to a large number if the key is more than kFarthest tokens before the query.
      const std::size_t peak = row.argmax + kFarthest - row.query;
      if (peak < analysis::kOffsetCount && panel.visible.shows(row.query, row.argmax))
        ++sums.offsets[peak].open(sequence).sum;
      if (row.query > 0) first += static_cast<double>(row.weights[0]);
      if (sees_far_keys(row, panel.visible)) {
        const forward::KeyRange near = analysis::keys_near(row, kNear);
        for (std::size_t key = near.first; key < near.last; ++key)
          near_keys += static_cast<double>(row.weights[key]);
      }
      entropy += row.entropy / nulls.log_keys[r];
    }
    for (const auto& [id, positions] : specials_[sequence]) {
      double sum = 0;
      for (std::size_t r = 0; r < panel.rows.size(); ++r) {
        if (nulls.log_keys[r] == 0) continue;
        for (const std::size_t key : positions) sum += static_cast<double>(panel.rows[r].weights[key]);
      }
      if (nulls.terms.specials.contains(id)) sums.specials[id].open(sequence).sum += sum;
    }
  }
  void finish(StudyResults& results) const override {
    for (std::size_t h = 0; h < states_.size(); ++h) {
      const auto give = [&](std::string_view role, std::string detail, const RatioSums& sums) {
        results.evidence.push_back(evidence_of(h, role, std::move(detail), sums));
      };
      const RoleSums<RatioSums>& head = states_[h];
      if (const auto best = best_offset(head)) {
        const std::int64_t offset = static_cast<std::int64_t>(*best) - analysis::kLargestOffset;
        give("positional", (offset > 0 ? "+" : "") + std::to_string(offset), head.offsets[*best]);
        results.evidence.back().choices = head.offsets.size();
      }
      give("sink", "position 0", head.first);
      for (const auto& [id, sums] : head.specials) give("separator", names_.of(id), sums);
      give("local", "", head.near);
      give("broad", "", head.entropy);
    }
  }

 private:
  [[nodiscard]] RoleNulls nulls(const StudyPanel& panel) const {
    RoleNulls result;
    RoleSums<SentenceTerm>& terms = result.terms;
    for (const analysis::PatternRow& row : panel.rows) {
      const auto visible = static_cast<double>(panel.visible.count(row.query));
      result.log_keys.push_back(std::log(visible));
      if (visible <= 1) continue;
      analysis::for_each_visible_offset(row, panel.visible,
                                        [&](std::size_t i) { terms.offsets[i].add(0, 1 / visible); });
      if (row.query > 0 && panel.visible.shows(row.query, 0)) terms.first.add(0, 1 / visible);
      const forward::KeyRange near = analysis::keys_near(row, kNear);
      if (sees_far_keys(row, panel.visible))
        terms.near.add(0,
                       static_cast<double>(panel.visible.count(row.query, near.first, near.last)) / visible);
      terms.entropy.add(0, 1);
      for (const auto& [id, positions] : specials_[panel.panel.sequence]) {
        const auto targets = static_cast<double>(std::ranges::count_if(
            positions, [&](std::size_t key) { return panel.visible.shows(row.query, key); }));
        if (targets > 0) terms.specials[id].add(0, targets / visible);
      }
    }
    return result;
  }

  std::vector<PositionsOf> specials_;  // [sequences] of the block
  PerPanel<RoleNulls> nulls_;
};

}  // namespace

std::span<const RoleRow> role_rows() {
  return kRows;
}

std::string rule_of(const RoleRow& row, std::size_t tests) {
  std::vector<std::string> parts = {"at least " + cases_of(row)};
  if (row.least > 0) parts.push_back(fmt::format("score >= {}", row.least));
  if (row.margin > 0) parts.push_back(fmt::format("score >= null + {}", row.margin));
  if (row.above_null && tests == 0) parts.emplace_back("corrected interval above the null");
  if (row.above_null && tests > 0)
    parts.push_back("interval above the null, corrected for " + counted(tests, "test"));
  if (!row.unless.empty()) parts.push_back(fmt::format("not {}", row.unless));
  return fmt::format("{}", fmt::join(parts, "; "));
}

bool has_cases(const RoleEvidence& evidence) {
  return evidence.estimate && evidence.estimate->clusters >= kFewestClusters &&
         evidence.count >= role_of(evidence).fewest;
}

bool meets(const RoleRow& row, const RoleEvidence& evidence, std::size_t tests) {
  if (!evidence.score || !evidence.null || !has_cases(evidence)) return false;
  if (*evidence.score < row.least) return false;
  if (row.margin > 0 && *evidence.score < *evidence.null + row.margin) return false;
  if (!row.above_null) return true;
  if (evidence.random && *evidence.score <= *evidence.random) return false;
  const double low = evidence.estimate->interval(tests).low - kRounding;
  if (evidence.shuffled && low <= *evidence.shuffled) return false;
  return evidence.excess ? evidence.excess->difference_interval(tests).low > kRounding : low > *evidence.null;
}

void set_random(std::vector<RoleEvidence>& evidence, const std::vector<RoleEvidence>& of_random) {
  std::map<std::string_view, double> most;  // largest difference between score and null for each role
  for (const RoleEvidence& each : of_random) {
    if (!each.score || !each.null || !has_cases(each)) continue;
    const double above = *each.score - *each.null;
    double& largest = most.try_emplace(each.role, above).first->second;
    largest = std::max(largest, above);
  }
  for (RoleEvidence& each : evidence) {
    const auto found = most.find(each.role);
    if (found != most.end() && each.null) each.random = *each.null + found->second;
  }
}

std::vector<HeadRole> decide_roles(const std::vector<RoleEvidence>& evidence) {
  std::map<const RoleRow*, std::size_t> tests;
  for (const RoleEvidence& each : evidence) {
    if (has_cases(each)) tests[&role_of(each)] += each.choices;
  }
  std::vector<HeadRole> roles;
  for (const RoleEvidence& each : evidence) {
    const RoleRow& row = role_of(each);
    if (meets(row, each, tests[&row])) roles.push_back({&row, each, tests[&row]});
  }
  std::ranges::stable_sort(roles, {},
                           [](const HeadRole& role) { return std::pair(role.evidence.head, role.row); });
  const std::vector<HeadRole> all = roles;
  std::erase_if(roles, [&all](const HeadRole& role) {
    return std::ranges::any_of(all, [&role](const HeadRole& other) {
      return other.evidence.head == role.evidence.head && other.row->name == role.row->unless;
    });
  });
  return roles;
}

namespace {

/// Adds the table causal_roles, which has the effect of removing the head of each role, and as text the roles
/// that the removal does not confirm.
void add_causal_roles(StudyResults& results, const std::vector<HeadRole>& roles, const StudyShape& shape) {
  if (results.ablated.empty()) return;
  std::vector<std::vector<Cell>> rows, unconfirmed;
  for (const HeadRole& role : roles) {
    const AblatedHead& head = results.ablated.at(role.evidence.head);
    Cell confirmed;
    if (head.interval) {
      const double null = number_of(head.null_mean);
      confirmed = head.interval->low > 0 && !(head.interval->low <= null);
    }
    rows.push_back(row_of(shape.head_cells(role.evidence.head), role.row->name,
                          text_cell(role.evidence.detail), real_cell(role.evidence.score), head.loss_change,
                          interval_cells(head.interval), head.null_mean, head.p_value, head.direct_change,
                          head.self_repair, confirmed));
    if (confirmed == Cell(false))
      unconfirmed.push_back(row_of(shape.heads[role.evidence.head].name, role.row->name,
                                   text_cell(role.evidence.detail), real_cell(role.evidence.score),
                                   head.loss_change, head.null_mean));
  }
  results.text.emplace_back(
      TextLine{"Roles and removal",
               rows.empty() ? ": no head has a role"
                            : fmt::format(": removing the head confirms {} of {}",
                                          rows.size() - unconfirmed.size(), counted(rows.size(), "role"))});
  if (!unconfirmed.empty())
    results.text.emplace_back(
        TextTable{"Roles that removing the head does not confirm",
                  make_table("unconfirmed", {"head", "role", "detail", "score", "loss_change", "null_mean"},
                             std::move(unconfirmed))});
  add_table(
      results, "causal_role", "causal_roles",
      {"component", "layer", "head", "name", "role", "detail", "score", "loss_change", "loss_change_low",
       "loss_change_high", "null_mean", "p_value", "direct_change", "self_repair", "confirmed"},
      std::move(rows));
}

}  // namespace

void add_roles(StudyResults& results, const StudyShape& shape) {
  const std::vector<HeadRole> roles = decide_roles(results.evidence);
  std::vector<HeadRoles> heads(shape.heads.size());
  for (const HeadRole& role : roles) heads.at(role.evidence.head).push_back(&role);
  // The roles that were tested ("induction"), those with too few cases, by the cases that they need, and a
  // legend of the roles that were found ("I induction").
  std::vector<std::string_view> tested;
  std::map<std::string, std::vector<std::string_view>> untested;
  std::vector<std::string> found;
  std::vector<std::string> lines(kRows.size());  // of the legend of the picture
  for (const RoleRow& row : kRows) {
    const auto of_row = [&row](const RoleEvidence& each) { return each.role == row.name; };
    const auto of_row_with_cases = [&](const RoleEvidence& each) { return of_row(each) && has_cases(each); };
    if (std::ranges::any_of(results.evidence, of_row_with_cases))
      tested.push_back(row.name);
    else if (std::ranges::any_of(results.evidence, of_row))
      untested[cases_of(row)].push_back(row.name);
    if (std::ranges::find(roles, &row, &HeadRole::row) == roles.end()) continue;
    found.push_back(fmt::format("{} {}", row.letter, row.name));
    lines[static_cast<std::size_t>(&row - kRows.data())] =
        fmt::format("{}: {}", found.back(), definition_of(std::string(row.metric))->meaning);
  }
  const bool all_have_roles = std::ranges::none_of(heads, &HeadRoles::empty);
  if (!found.empty() && !all_have_roles) found.emplace_back(". no role");
  if (!all_have_roles) lines.emplace_back(". no role (grey)");
  const std::string legend = found.empty() ? "no head has a role" : fmt::format("{}", fmt::join(found, ", "));
  std::vector<std::string> none;
  if (!tested.empty()) none.push_back(fmt::format("none of {}", fmt::join(tested, ", ")));
  for (const auto& [cases, names] : untested)
    none.push_back(fmt::format("fewer than {}: {} not tested", cases, fmt::join(names, ", ")));
  add_table(results, "role", "roles",
            {"component", "layer", "head", "name", "role", "detail", "score", "null", "shuffled", "random",
             "low", "high", "count", "rule"},
            role_result_rows(heads, shape, fmt::format("{}", fmt::join(none, "; "))));
  std::vector<Cell> letters;
  for (const HeadRoles& of_head : heads) letters.emplace_back(letters_of(of_head));
  std::vector<PageBlock> text = {head_grid(shape, "Roles (" + legend + ")", letters)};
  const auto of_probe = [](const HeadRole& role) { return role.row->metric.starts_with("probe."); };
  if (!roles.empty())
    text.emplace_back(TextTable{
        std::ranges::none_of(roles, of_probe)
            ? "Strongest heads by role"
            : "Strongest heads by role (I and D: in repeated random sequences; others: in the corpus)",
        strongest(roles, shape)});
  for (const auto& [cases, names] : untested)
    text.emplace_back(
        TextLine{"Too few cases", fmt::format(" for {} (need {})", fmt::join(names, ", "), cases)});
  const auto no_random = [](const HeadRole& role) { return role.row->above_null && !role.evidence.random; };
  const auto no_shuffled = [](const HeadRole& role) {
    return !role.evidence.shuffled &&
           std::ranges::any_of(measure_catalogue(), [&](const MeasureRow& measure) {
             return measure.depends_on_order &&
                    std::ranges::count(measure.definitions, role.row->metric, &Definition::name) > 0;
           });
  };
  std::string hint;
  if (std::ranges::any_of(roles, no_random))
    hint = "--null-model 5 to compare these roles with those of random models";
  if (std::ranges::any_of(roles, no_shuffled))
    hint +=
        (hint.empty() ? "" : ", and with ") + std::string("--null-shuffle 1 to compare with shuffled tokens");
  if (!hint.empty()) text.emplace_back(TextLine{"Hint", ": run the study with " + hint});
  results.text.insert(results.text.begin(), text.begin(), text.end());
  add_causal_roles(results, roles, shape);
  results.pictures.insert(results.pictures.begin(), {"roles", role_page(heads, shape, std::move(lines))});
}

MeasureRow roles_measure() {
  return {.name = "roles",
          .description = "the roles of each head, decided from the results of the selected measures",
          .make = make_measure<RolesMeasure>,
          .definitions = kRoleDefinitions,
          .gives_evidence = true};
}

}  // namespace attnctl::study
