#include "toolroll/token_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace toolroll {

TokenTable::TokenTable(std::span<const std::string_view> vocabulary,
                       std::span<const std::int8_t> table, std::span<const float> scale,
                       std::size_t dim)
    : pieces_(std::make_shared<const WordPiece>(vocabulary)),
      rows_(table, scale, dim, vocabulary.size()) {}

void TokenTable::embed(std::string_view text, std::span<float> out) const {
  if (out.size() != dim()) {
    throw std::invalid_argument("vector: has " + std::to_string(out.size()) +
                                " elements, must have " + std::to_string(dim()));
  }
  thread_local std::vector<std::int32_t> ids;
  pieces_->encode(text, kMostTokens, ids);
  std::fill(out.begin(), out.end(), 0.0F);
  add(ids, out);
  to_unit_length(out);
}

void TokenTable::add(std::span<const std::int32_t> ids, std::span<float> sum) const {
  rows_.add(ids, pieces_->unknown(), sum);
}

std::size_t TokenTable::memory_bytes() const {
  return pieces_->memory_bytes() + rows_.memory_bytes();
}

}  // namespace toolroll
