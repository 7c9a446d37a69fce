#include "toolroll/row_changes.hpp"

#include <stdexcept>
#include <string>

namespace toolroll {

RowChanges::RowChanges(std::size_t before, std::span<const std::int32_t> sources)
    : sources_(sources.begin(), sources.end()), targets_(before, kNone) {
  std::int32_t last = kNone;
  for (std::size_t row = 0; row < sources_.size(); ++row) {
    const std::int32_t source = sources_[row];
    if (source == kNone) {
      added_.push_back(static_cast<std::int32_t>(row));
      continue;
    }
    if (source <= last || static_cast<std::size_t>(source) >= before) {
      throw std::invalid_argument("sources: row " + std::to_string(source) +
                                  " is out of order or not in 0.." + std::to_string(before) +
                                  " (excluded)");
    }
    targets_[static_cast<std::size_t>(source)] = static_cast<std::int32_t>(row);
    last = source;
  }
}

void RowChanges::check(std::size_t rows, std::size_t added) const {
  if (rows != before()) {
    throw std::invalid_argument("sources: are of " + std::to_string(before()) +
                                " rows, the index has " + std::to_string(rows));
  }
  if (added != added_.size()) {
    throw std::invalid_argument("added: are " + std::to_string(added) + ", must be " +
                                std::to_string(added_.size()));
  }
}

}  // namespace toolroll
