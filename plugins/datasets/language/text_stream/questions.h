// Questions to a language model in the layouts in which benchmarks publish them, one JSON map per
// line.
//
//   form        a line                                        context, and possible continuations
//   lambada     {text}                                        all but the last word; that word
//   hellaswag   {activity_label, ctx_a, ctx_b, endings,       "LABEL: CTX_A Ctx_b", without marks
//               label}, or {ctx, endings, label}              in brackets; the endings
//   piqa        {goal, sol1, sol2}, with label or a line of   "Question: GOAL\nAnswer:"; the two
//               the file `labels`                             solutions
//   arc         {question: {stem, choices: [{text, label}]},  "Question: STEM\nAnswer:"; the
//               answerKey}, or {question, choices: {text:     choices' texts
//               [], label: []}, answerKey}
//   choices     {context, choices, label}                     as they stand
//
// A blank stands between a context and what follows. Other keys of a line do not count. Capitals of
// Ctx_b are those of ASCII. Labels are numbers from 0 on, as JSON or as a text; an answerKey is one
// of the choices' labels.
// Source: EleutherAI/lm-evaluation-harness, 0.4 (lambada_openai, hellaswag, piqa, arc_easy).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/data/text/text.h"

namespace attnlab {

struct QuestionOptions {
  std::string form, requests, labels;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("form", form, one_of("", "lambada", "hellaswag", "piqa", "arc", "choices"),
      "layout of `requests`: its questions (a context and what follows) are the only examples, as "
      "the test split, scored by task.requests");
    v("requests", requests,
      "the file with one question per line: a path, or one below $ATTNLAB_DATA");
    v("labels", labels, "for piqa: the file with the correct solution of each question, 0 or 1");
  }
};

struct Question {
  std::string place;    ///< "file:line"
  std::string context;  ///< without white space at its end
  /// What follows the context, with the white space between them; of lambada one.
  std::vector<std::string> choices;
  std::vector<std::int64_t> characters;  ///< of each choice, without the blank before it
  std::int64_t label = 0;                ///< the right one
};

/// The questions of a file, in its order.
/// @param labels  of piqa, or null
/// @throws DataError, with file and line, for a line of another layout, an empty choice, and a
///         label that is not one of the choices
std::vector<Question> read_questions(const TextPiece& file, const std::string& form,
                                     const TextPiece* labels);

}  // namespace attnlab
