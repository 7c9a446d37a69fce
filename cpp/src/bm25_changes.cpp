#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "toolroll/bm25.hpp"

namespace toolroll {

Bm25Index Bm25Index::with_changes(const RowChanges& changes, std::span<const Field> fields) const {
  if (background_) {
    throw std::invalid_argument("BM25 index: has a background, cannot be changed");
  }
  const Bm25Index added = build(fields, options_);
  changes.check(size_, added.size_);
  const std::span<const std::int32_t> targets = changes.targets();

  Bm25Index index;
  index.size_ = changes.size();
  index.options_ = options_;
  std::vector<float> lengths(index.size_);
  std::size_t next = 0;
  for (std::size_t row = 0; row < index.size_; ++row) {
    const std::int32_t source = changes.sources()[row];
    lengths[row] = source == RowChanges::kNone ? added.lengths_[next++]
                                               : lengths_[static_cast<std::size_t>(source)];
  }
  index.lengths_ = std::move(lengths);

  // Term by term: the kept postings under their new rows, and those of the added rows among them.
  const std::size_t terms = table_.size();
  std::vector<std::uint32_t> number_in_added(terms, StringTable::kMissing);
  std::vector<std::uint32_t> fresh;  // terms of added rows alone
  for (std::uint32_t t = 0; t < added.table_.size(); ++t) {
    const std::uint32_t known = table_.find(added.table_[t]);
    if (known == StringTable::kMissing) {
      fresh.push_back(t);
    } else {
      number_in_added[known] = t;
    }
  }
  std::vector<std::int32_t> postings(postings_.size() + added.postings_.size());
  std::vector<float> frequencies(postings.size());
  std::size_t count = 0;
  const auto add = [&](std::int32_t row, float frequency) {
    postings[count] = row;
    frequencies[count++] = frequency;
  };
  std::vector<std::uint32_t> left;  // terms that some row still has
  left.reserve(terms);
  std::vector<std::uint64_t> begins(1, 0);
  begins.reserve(terms + fresh.size() + 1);
  const auto end_term = [&] { begins.push_back(count); };
  for (std::uint32_t t = 0; t < terms; ++t) {
    std::uint64_t other = 0;
    std::uint64_t others = 0;
    if (number_in_added[t] != StringTable::kMissing) {
      other = added.begins_[number_in_added[t]];
      others = added.begins_[number_in_added[t] + 1];
    }
    const auto row_of = [&](std::uint64_t at) {
      return changes.added()[static_cast<std::size_t>(added.postings_[at])];
    };
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) {
      const std::int32_t row = targets[static_cast<std::size_t>(postings_[i])];
      if (row == RowChanges::kNone) continue;
      for (; other < others && row_of(other) < row; ++other) {
        add(row_of(other), added.frequencies_[other]);
      }
      add(row, frequencies_[i]);
    }
    for (; other < others; ++other) add(row_of(other), added.frequencies_[other]);
    if (count == begins.back()) continue;
    left.push_back(t);
    end_term();
  }
  for (const std::uint32_t t : fresh) {
    for (std::uint64_t i = added.begins_[t]; i < added.begins_[t + 1]; ++i) {
      add(changes.added()[static_cast<std::size_t>(added.postings_[i])], added.frequencies_[i]);
    }
    end_term();
  }
  postings.resize(count);
  frequencies.resize(count);
  index.begins_ = std::move(begins);
  index.postings_ = std::move(postings);
  index.frequencies_ = std::move(frequencies);

  if (left.size() == terms) {
    index.table_ = table_;
  } else {
    for (const std::uint32_t t : left) index.table_.add(table_[t]);
  }
  for (const std::uint32_t t : fresh) index.table_.add(added.table_[t]);
  index.weigh();
  index.derive();
  return index;
}

}  // namespace toolroll
