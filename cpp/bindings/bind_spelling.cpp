#include <pybind11/stl.h>

#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "text.hpp"
#include "toolroll/spelling.hpp"
#include "vocabulary.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kCorrectNsPerByte = 100;  // where most words are unknown and looked for

using Build = Lexicon (*)(std::span<const std::string_view>, std::span<const float>);

template <Build build>
std::shared_ptr<Lexicon> built(const py::sequence& list, const Column<float>& weights) {
  const Texts texts(list);
  const std::vector<float> weight = snapshot(view(weights));
  const py::gil_scoped_release unlocked;
  return std::make_shared<Lexicon>(build(texts.views, weight));
}

std::vector<std::tuple<std::size_t, std::size_t, std::string>> corrections(const Speller& speller,
                                                                           const py::str& text) {
  const Utf8 message(text);
  const std::string_view view = message.view();
  std::vector<Speller::Correction> found;
  {
    const GilReleasedIf unlocked(kCorrectNsPerByte * static_cast<double>(view.size()) >
                                 kWorthReleasingNs);
    found = speller.corrections(view);
  }
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> out;
  if (found.empty()) return out;
  const CodePoints code_points(view);
  for (const Speller::Correction& one : found) {
    out.emplace_back(code_points.before(one.begin), code_points.before(one.end), one.word);
  }
  return out;
}

}  // namespace

void bind_spelling(py::module_& m) {
  py::class_<Lexicon, std::shared_ptr<Lexicon>>(m, "Lexicon")
      .def_static("of_words", &built<&Lexicon::of_words>, py::arg("words"),
                  py::arg("weights").noconvert())
      .def_static(
          "of_vocabulary",
          [](const py::sequence& vocabulary, double flat) {
            const Vocabulary pieces(vocabulary);
            const py::gil_scoped_release unlocked;
            return std::make_shared<Lexicon>(Lexicon::of_vocabulary(pieces.views, flat));
          },
          py::arg("vocabulary"), py::arg("flat"))
      .def_static("of_texts", &built<&Lexicon::of_texts>, py::arg("texts"),
                  py::arg("weights").noconvert())
      .def(
          "weight",
          [](const Lexicon& lexicon, const py::str& word) {
            return lexicon.weight(Utf8(word).view());
          },
          py::arg("word"))
      .def(
          "knows",
          [](const Lexicon& lexicon, const py::str& word) {
            return lexicon.knows(Utf8(word).view());
          },
          py::arg("word"))
      .def(
          "knows_words_of",
          [](const Lexicon& lexicon, const py::str& text) {
            return lexicon.knows_words_of(Utf8(text).view());
          },
          py::arg("text"))
      .def_property_readonly("size", &Lexicon::size)
      .def_property_readonly("memory_bytes", &Lexicon::memory_bytes);

  py::class_<Speller, std::shared_ptr<Speller>>(m, "Speller")
      .def(py::init([](std::shared_ptr<Lexicon> catalog, std::shared_ptr<Lexicon> general,
                       std::shared_ptr<LanguageGate> gate) {
             return Speller(std::move(catalog), std::move(general), std::move(gate));
           }),
           py::arg("catalog"), py::arg("general"), py::arg("gate") = py::none())
      .def(
          "with_own",
          [](const Speller& speller, std::shared_ptr<Lexicon> own) {
            return speller.with_own(std::move(own));
          },
          py::arg("own"))
      .def_property_readonly("catalog",
                             [](const Speller& speller) {
                               return std::const_pointer_cast<Lexicon>(speller.catalog());
                             })
      .def("corrections", &corrections, py::arg("text"));
}

}  // namespace toolroll::bindings
