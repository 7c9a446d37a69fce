/// One turn on its way through the stages of a Selector.
///
/// The methods are defined by subject: selector_evidence.cpp, selector_routes.cpp,
/// selector_retrieval.cpp, selector_outcomes.cpp, selector_limits.cpp and selector_list.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "toolroll/selector.hpp"

namespace toolroll {

using Rows = std::vector<std::int32_t>;

inline constexpr std::size_t kMost = std::size_t{1} << 31;  // of what is counted: above any rows

/// A number of rows, rounded up.
std::size_t rounded_up(double number);

/// Each stage reads the columns and replaces them.
class Selector::Turn {
 public:
  Turn(const Selector& selector, const Ask& ask);

  // The stages, in their order.
  void narrow_to_page();
  void route();
  /// A row gains once, by the greatest weight of its marks.
  void favour_marks();
  /// A row gains by the latest turn that called its toolkit.
  void favour_called();
  void retrieve();
  /// Where vectors found nothing at all.
  void retrieve_by_words();
  /// Where nothing matched, puts k rows into play without a score. The first rule that applies:
  /// 1. None, where the conversation has tools of earlier turns: they stay in the list.
  /// 2. Rows that were found below the threshold: the best, unless there are core rows.
  /// 3. Where the page or routes narrowed the catalog: the rows that they left.
  /// 4. None, where there are core rows: they are in the list.
  /// 5. All allowed rows.
  /// In 3 and 5 rows that worked best for the organisation come first, then by row.
  void fall_back();
  void rank();
  /// The nearest rows that do not fail and the best draw of the others, in the order of the draws.
  void draw();
  /// Puts the toolkits that were hit behind what retrieval found.
  void fill();
  void include();
  void cut();
  void keep_list();
  void keep_order();

  Picked result() &&;

 private:
  /// The rows that were sent before and are still allowed, and their places in that list.
  struct Sent {
    Rows rows;
    RowMap place;
  };

  // What every stage needs.
  void step(Verb verb, Reason reason, Found found = Found::kNothing);
  void resize(std::size_t n);
  void reorder(const Rows& places);
  /// Puts these rows into play and no others; a row that was not in play has no score.
  void arrange(Rows rows);
  /// Puts allowed rows that are not there in front, without a score.
  void admit(std::span<const std::int32_t> rows, Reason reason);
  /// What is in play while it is a set; after that the last such set.
  const Bitset& pool() const { return sets_ == 0 ? ask_.allowed : picked_.pools[sets_ - 1]; }
  void put_pool(Bitset pool);
  /// Keeps of the set in play what is in the other one.
  void narrow_to(const Bitset& kept, Reason reason, Found found = Found::kNothing);
  bool is_empty() const { return is_pool_ ? pool().count() == 0 : rows_.empty(); }
  std::optional<std::size_t> places(std::optional<std::size_t> k) const;
  std::optional<std::size_t> limit() const;
  bool allows(std::int32_t row) const {
    return ask_.allowed.contains(static_cast<std::size_t>(row));
  }
  /// The row's place in front, nullptr if k counts it.
  const std::int32_t* core_place(std::int32_t row) const;
  bool is_core(std::int32_t row) const { return core_place(row) != nullptr; }
  std::int64_t cost(std::int32_t row) const;

  // Evidence and routes.
  /// Adds to the scores of rows in play; those that have none have 0 so far.
  void gain(const Rows& rows, const std::vector<float>& gains);
  void favour_routes();
  void narrow_to_routes();
  /// Picked::routed becomes the hits with a row in play. Returns all their rows, as a set.
  Bitset hit_rows();

  // Retrieval, and what stands in for it.
  FoundTools search(const RetrievalStage& stage, const Part& message,
                    std::span<const std::int32_t> known_rows, std::span<const float> known_scores,
                    double hits) const;
  /// Whether the conversation adds tools of earlier turns to the list.
  bool has_earlier() const;
  bool allows_core() const;
  bool is_narrowed() const;
  /// The last set in play that has a row.
  const Bitset& last_choice() const;
  /// Puts rows first that outcomes speak for.
  void order_by_reliability();

  // Limits.
  /// Makes columns of a set: core, by score, by row.
  void rank_pool();
  void put_core_first();
  void cut_to_k();
  /// Asks the caller's own steps for other scores of the rows behind the core.
  void rerank();
  void cut_to_budget();

  // The list of the conversation.
  Sent sent_rows(const ConversationRows& conversation) const;
  /// Loaded rows, then those that were called in the last turns.
  Rows held(const Rows& selected) const;
  /// What was sent in its order, then newcomers.
  Rows ordered(const Rows& picked, const Sent& sent, bool grows) const;
  /// The rows of the order that this turn did not pick, latest picked first; those of one turn as
  /// they were sent, then by row.
  Rows latest(const Rows& order, const Rows& picked, const Sent& sent) const;
  /// The order without the rows that exceed the limits: `back` is cut first, from its end.
  Rows bounded(const Rows& order, Rows picked, Rows back, double batch) const;
  /// The rows that fit, one after the other. left: tokens, and then what is left of them.
  Rows affordable(const Rows& rows, std::int64_t& left) const;
  /// Writes Picked::list_turns.
  void count_turns();

  const Selector& selector_;
  const SoftStages& stages_;
  const Ask& ask_;
  std::size_t sets_ = 0;  // of Picked::pools
  bool is_pool_ = true;   // whether a set is in play, or the columns
  Rows rows_;             // with a set: the rows with evidence
  std::vector<float> scores_;
  RowMap included_;       // rows that the call includes and are no core → their places
  std::size_t core_ = 0;  // of the rows, those in front that k does not count
  bool has_fallback_ = false;
  std::optional<RowMap> unscored_;  // once the caller's steps may give scores: rows that had none
  Picked picked_;
};

}  // namespace toolroll
