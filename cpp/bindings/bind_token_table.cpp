#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "text.hpp"
#include "toolroll/language_gate.hpp"
#include "toolroll/multilingual_table.hpp"
#include "toolroll/token_table.hpp"
#include "toolroll/unigram.hpp"
#include "toolroll/wordpiece.hpp"
#include "vocabulary.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kEncodeNsPerByte = 20;  // folding, and looking pieces up
constexpr double kAddNs = 0.03;          // one number of a token's row to the sum
constexpr double kBytesPerToken = 4;

double expected_ns(std::size_t bytes) {
  return kEncodeNsPerByte * static_cast<double>(std::min(bytes, Unigram::kMostBytes));
}

template <class AnyTable>
double expected_ns(const AnyTable& table, std::size_t bytes) {
  return static_cast<double>(bytes) *
         (kEncodeNsPerByte + kAddNs * static_cast<double>(table.dim()) / kBytesPerToken);
}

using Table = py::array_t<std::int8_t, py::array::c_style>;

std::span<const std::int8_t> numbers(const Table& table) {
  if (table.ndim() != 2) {
    throw std::invalid_argument("table: has " + std::to_string(table.ndim()) +
                                " dimensions, must have 2");
  }
  return {table.data(), static_cast<std::size_t>(table.size())};
}

TokenTable table_of(const py::sequence& vocabulary, const Table& table,
                    const Column<float>& scale) {
  const std::span<const std::int8_t> rows = numbers(table);
  const Vocabulary pieces(vocabulary);
  return TokenTable(pieces.views, rows, view(scale), static_cast<std::size_t>(table.shape(1)));
}

template <class AnyTable>
Column<float> embed(const AnyTable& table, const py::str& text) {
  const Utf8 message(text);
  Column<float> out(static_cast<py::ssize_t>(table.dim()));
  const std::span<float> vector{out.mutable_data(), table.dim()};
  {
    const GilReleasedIf unlocked(expected_ns(table, message.view().size()) > kWorthReleasingNs);
    table.embed(message.view(), vector);
  }
  return out;
}

template <class AnyTable>
Column<float> embed_batch(const AnyTable& table, const py::sequence& texts) {
  const Texts messages(texts);
  const auto dim = static_cast<py::ssize_t>(table.dim());
  Column<float> out(std::vector<py::ssize_t>{static_cast<py::ssize_t>(messages.views.size()), dim});
  float* const vectors = out.mutable_data();
  std::size_t bytes = 0;
  for (const std::string_view text : messages.views) bytes += text.size();
  {
    const GilReleasedIf unlocked(expected_ns(table, bytes) > kWorthReleasingNs);
    for (std::size_t i = 0; i < messages.views.size(); ++i) {
      table.embed(messages.views[i], {vectors + i * table.dim(), table.dim()});
    }
  }
  return out;
}

}  // namespace

void bind_token_table(py::module_& m) {
  py::class_<WordPiece, std::shared_ptr<WordPiece>>(m, "WordPiece")
      .def(py::init([](const py::sequence& vocabulary) {
             const Vocabulary pieces(vocabulary);
             return WordPiece(pieces.views);
           }),
           py::arg("vocabulary"))
      .def(
          "encode",
          [](const WordPiece& pieces, const py::str& text, std::size_t max_tokens) {
            const Utf8 message(text);
            std::vector<std::int32_t> ids;
            {
              const GilReleasedIf unlocked(kEncodeNsPerByte *
                                               static_cast<double>(message.view().size()) >
                                           kWorthReleasingNs);
              pieces.encode(message.view(), max_tokens, ids);
            }
            return copied(ids);
          },
          py::arg("text"), py::arg("max_tokens") = 0)
      .def_property_readonly("size", &WordPiece::size)
      .def_property_readonly("unknown", &WordPiece::unknown);

  py::class_<Unigram>(m, "Unigram")
      .def(py::init([](const py::sequence& vocabulary, const Column<float>& scores) {
             const Texts pieces(vocabulary);
             return Unigram(pieces.views, view(scores));
           }),
           py::arg("vocabulary"), py::arg("scores").noconvert())
      .def(
          "encode",
          [](const Unigram& pieces, const py::str& text, std::size_t max_tokens) {
            const Utf8 message(text);
            std::vector<std::int32_t> ids;
            {
              const GilReleasedIf unlocked(expected_ns(message.view().size()) > kWorthReleasingNs);
              pieces.encode(message.view(), max_tokens, ids);
            }
            return copied(ids);
          },
          py::arg("text"), py::arg("max_tokens") = 0)
      .def_property_readonly("size", &Unigram::size);

  py::class_<TokenTable, std::shared_ptr<TokenTable>>(m, "TokenTable")
      .def(py::init(&table_of), py::arg("vocabulary"), py::arg("table").noconvert(),
           py::arg("scale").noconvert())
      .def("embed", &embed<TokenTable>, py::arg("text"))
      .def("embed_batch", &embed_batch<TokenTable>, py::arg("texts"))
      .def_property_readonly("dim", &TokenTable::dim);

  py::class_<LanguageGate, std::shared_ptr<LanguageGate>>(m, "LanguageGate")
      .def(py::init([](std::shared_ptr<WordPiece> pieces, const Column<float>& weights) {
             return LanguageGate(std::move(pieces), view(weights));
           }),
           py::arg("pieces"), py::arg("weights").noconvert())
      .def(
          "is_foreign",
          [](const LanguageGate& gate, const py::str& text) {
            return gate.is_foreign(Utf8(text).view());
          },
          py::arg("text"));

  py::class_<MultilingualTable>(m, "MultilingualTable")
      .def(py::init([](const std::shared_ptr<TokenTable>& english, const py::sequence& vocabulary,
                       const Column<float>& scores, const Table& table, const Column<float>& scale,
                       const Column<float>& gate) {
             const Vocabulary pieces(vocabulary);
             return MultilingualTable(english, pieces.views, view(scores), numbers(table),
                                      view(scale), view(gate));
           }),
           py::arg("english").none(false), py::arg("vocabulary"), py::arg("scores").noconvert(),
           py::arg("table").noconvert(), py::arg("scale").noconvert(), py::arg("gate").noconvert())
      .def("embed", &embed<MultilingualTable>, py::arg("text"))
      .def("embed_batch", &embed_batch<MultilingualTable>, py::arg("texts"))
      .def_property_readonly("dim", &MultilingualTable::dim);
}

}  // namespace toolroll::bindings
