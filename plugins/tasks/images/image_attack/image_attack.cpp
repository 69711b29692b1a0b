// Robust accuracy: what is left of a classifier's accuracy under an attack on its images.
//
//   accuracy        share of images that are classified correctly before and after the attack (of
//                   `published`: after it)
//   nll             of the attacked images
//   clean_accuracy  of the same images unchanged
//   after/ATTACK    of `auto`: accuracy after this attack and those before it
//   black_box_only  of `auto`, `square` and `spsa`: share of images that the attack without
//                   gradients fooled and none with gradients did (beside `square` and `spsa` these
//                   are PGD and APGD on the margin, 20 steps each); where it is more than a few,
//                   gradients may be masked, and robustness by gradients overstated
//   distance        largest |x' - x| of all images   queries   images through the model, an image
//                   (the attack's own, without those of `black_box_only`)
//   steps/ATTACK    the budget: steps, or queries of Square
//
// `auto` is AutoAttack's standard version: APGD-CE, APGD-T, FAB-T, Square, each on the images that
// are still classified correctly. attack.h has the attacks and their sources.
//
// space: eps is in units of pixels in [0, 1], or of normalised values (1/255 of those is some 0.23
// of that in pixels). protocol:
//   corrected   candidates stay pictures, attacks lead away from the true class, SPSA looks around
//               where it is
//   published   as the tables of Elliptical Attention and QUEST were made: FGSM, PGD and SPSA are
//               not cut to a range and lead away from the model's own answer, SPSA looks around 2
//               x, an image that is right after the attack alone counts as right, and AutoAttack
//               cuts to [0, 1] even where values are normalised. There cutting alone changes an
//               image by more than eps; distance is then of the cut.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <limits>

#include "framework/eval/classification.h"
#include "framework/eval/example_keys.h"
#include "framework/plugin.h"
#include "plugins/tasks/images/image_attack/attack.h"

namespace attnlab {
namespace {

struct ImageAttackOptions : ClassificationOptions {
  std::string attack = "pgd";
  double eps = 1.0 / 255;
  std::string space = "pixel";
  std::string protocol = "corrected";
  std::int64_t steps = 0;
  double step_size = 0;
  std::int64_t targets = 9;
  std::int64_t samples = 128;
  double delta = 0.01;
  std::int64_t draws = 1;
  std::int64_t images = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("attack", attack,
      one_of("fgsm", "pgd", "spsa", "apgd_ce", "apgd_t", "fab_t", "square", "auto"),
      "auto: apgd_ce, apgd_t, fab_t and square, one after the other");
    v("eps", eps, at_least(0), "largest change of a value");
    v("space", space, one_of("pixel", "normalised"),
      "unit of the attacked values: pixels in [0, 1], or normalised");
    v("protocol", protocol, one_of("corrected", "published"),
      "published: no clipping to valid pixels, away from the model's own answer, SPSA around 2 x");
    v("steps", steps, at_least(0),
      "0: 20 for pgd, 40 for spsa, 100 for apgd and fab, 5000 queries for square");
    v("step_size", step_size, at_least(0), "0: 0.15 eps for pgd, 0.01 for spsa's Adam");
    v("targets", targets, range(1, 1000),
      "for apgd_t and fab_t: number of classes tried as targets");
    v("samples", samples, range(1, 100000), "for spsa: pairs of directions per step");
    v("delta", delta, range(1e-6, 1), "for spsa: length of the finite differences");
    v("draws", draws, range(1, 10000),
      "for models with randomness: passes averaged for a gradient and for the answer");
    v("images", images, at_least(0),
      "attack N images, drawn at random, the same for every model and seed (0: all)");
  }
};

/// Of a model whose gradients are sound, random search may yet find a few images more.
constexpr double kFewImages = 0.002;

/// Of the attacks with gradients that one without is compared to.
constexpr std::int64_t kComparedSteps = 20;
constexpr double kComparedStep = 0.15;  // of eps, PGD's

/// Sums over images.
struct Totals {
  double images = 0, clean = 0, robust = 0, nll = 0, black_box = 0, distance = 0;
  double queries_beside = 0;  ///< of the attacks that it is compared to
  std::vector<double> after;
};

/// So many images of the split by their numbers, sorted: the same for every model and seed, and of
/// all classes where the split is in order of them. Cost: the split is read once more.
std::vector<std::int64_t> drawn_images(Evaluation& evaluation, std::int64_t wanted) {
  std::int64_t count = 0;
  evaluation.batches(evaluation.split, [&](const Batch& batch) { count += batch.size; });
  std::vector<std::int64_t> drawn = permutation(count, RandomStreams(0).stream("attacked"));
  if (wanted < count) drawn.resize(static_cast<std::size_t>(wanted));
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

/// What is attacked of some rows of a batch.
Batch part_of(const Batch& batch, const std::vector<std::int64_t>& rows) {
  Batch part;
  part.size = static_cast<std::int64_t>(rows.size());
  for (const char* field : {"image", "class"}) {
    const Tensor& whole = batch.fields.at(field);
    part.fields.set(field, whole.index_select(0, at::tensor(rows, at::kLong).to(whole.device())));
  }
  return part;
}

class ImageAttack final : public ClassificationTask {
 public:
  ImageAttack(const ImageAttackOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), options_(options), image_(setup.data.field("image")) {
    stages_ = {options.attack};
    if (options.attack == "auto") stages_ = {"apgd_ce", "apgd_t", "fab_t", "square"};
    check_classes(setup.data.classes);
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = {{"accuracy", Better::higher, "share"},
                                   {"clean_accuracy", Better::higher, "share"},
                                   {"nll", Better::lower, "nats"},
                                   {"distance", Better::neither, ""},
                                   {"queries", Better::neither, ""}};
    for (const std::string& stage : stages_) {
      all.push_back({"steps/" + stage, Better::neither, ""});
    }
    if (is_auto()) {
      for (const std::string& stage : stages_) {
        all.push_back({"after/" + stage, Better::higher, "share"});
      }
    }
    if (!black_box().empty()) all.push_back({"black_box_only", Better::lower, "share"});
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    const Classifier classifier(evaluation.model, image_, options_.space == "pixel",
                                options_.draws);
    Totals totals;
    totals.after.assign(stages_.size(), 0);
    const bool all = options_.images == 0;
    const std::vector<std::int64_t> drawn =
        all ? std::vector<std::int64_t>{} : drawn_images(evaluation, options_.images);
    auto next = drawn.begin();
    std::int64_t begin = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      std::vector<std::int64_t> rows;
      for (; next != drawn.end() && *next < begin + batch.size; ++next) {
        rows.push_back(*next - begin);
      }
      begin += batch.size;
      if (!all && rows.empty()) return;
      attack(classifier, all ? batch : part_of(batch, rows), evaluation.streams, totals);
    });
    if (totals.images == 0) throw Error("evaluation: there were no images; is the split empty?");
    return result(totals, classifier.queries() - totals.queries_beside);
  }

 private:
  bool is_auto() const { return options_.attack == "auto"; }
  /// The stage that asks for no gradient; empty: none.
  std::string_view black_box() const {
    // A view on either side: a string on one would make the result a string that dies here.
    const std::string_view last = stages_.back();
    return last == "square" || last == "spsa" ? last : std::string_view();
  }

  /// @throws OptionError where an attack has too few classes to compare.
  void check_classes(std::int64_t classes) const {
    if (classes >= 4 || std::count(stages_.begin(), stages_.end(), "apgd_t") == 0) return;
    throw OptionError("attack",
                      fmt::format("{} compares four classes (DLR); the data have {}; take "
                                  "pgd, apgd_ce, fab_t or square",
                                  is_auto() ? "auto's apgd_t" : "apgd_t", classes));
  }

  Metrics result(const Totals& totals, double queries) const {
    const auto mean = [&](double sum) { return sum / totals.images; };
    Metrics metrics = {{"accuracy", mean(totals.robust)},
                       {"clean_accuracy", mean(totals.clean)},
                       {"nll", mean(totals.nll)},
                       {"distance", totals.distance},
                       {"queries", mean(queries)}};
    for (const std::string& stage : stages_) {
      metrics["steps/" + stage] = static_cast<double>(steps_of(stage));
    }
    for (std::size_t i = 0; is_auto() && i < stages_.size(); ++i) {
      metrics["after/" + stages_[i]] = mean(totals.after[i]);
    }
    if (black_box().empty()) return metrics;
    metrics["black_box_only"] = mean(totals.black_box);
    if (totals.black_box > kFewImages * totals.images) {
      std::cerr << fmt::format(
          "warning: {} of {} images were fooled by {} and by no attack with gradients; gradients "
          "of this model may be masked, and accuracies under gradient attacks too high\n",
          totals.black_box, totals.images, black_box() == "spsa" ? "SPSA" : "Square");
    }
    return metrics;
  }

  void attack(const Classifier& classifier, const Batch& batch, const RandomStreams& streams,
              Totals& totals) const {
    const Tensor images = classifier.entered(batch.fields.at("image"));
    const Tensor labels = batch.fields.at("class");
    const Tensor logits = classifier.logits(images);
    loss({{"logits", logits}}, batch);  // refuses classes that are none
    const Tensor answers = logits.argmax(1), clean = right_of(logits, labels);
    Tensor attacked = images, right = clean;
    const Tensor some = images.narrow(0, 0, std::min<std::int64_t>(8, images.size(0)));
    if (options_.draws == 1 && totals.images == 0 && classifier.varies(some)) {
      std::cerr << "warning: this model's answers differ between passes; set task.draws, so that "
                   "it is attacked and judged over several\n";
    }
    totals.clean += (options_.draws == 1 ? clean : judged(classifier, images, labels).right)
                        .sum()
                        .item<double>();
    const bool published = options_.protocol == "published";
    const bool own_answer = published && !is_auto();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      // One attack alone takes all images, so that nll is of attacked ones.
      const Tensor rows = rows_where(is_auto() ? right : at::ones_like(right));
      if (rows.numel() > 0) {
        Target target{classifier, images, own_answer ? answers : labels,     options_.eps,
                      {},         {},     keys_of(batch.fields.at("image")), streams};
        std::tie(target.low, target.high) = range(classifier, images);
        attacked = attacked.index_copy(0, rows, candidates(stages_[i], target.part(rows)));
        if (is_auto()) {
          const Tensor still = right_of(classifier.logits(attacked), labels);
          const Tensor newly = right.logical_and(still.logical_not());
          if (stages_[i] == black_box()) totals.black_box += newly.sum().item<double>();
          right = right.logical_and(still);
        } else if (!black_box().empty()) {
          compare_with_gradients(target, attacked, labels, clean, totals);
        }
      }
      totals.after[i] += right.sum().item<double>();
    }
    totals.images += static_cast<double>(images.size(0));
    totals.distance = std::max(totals.distance, (attacked - images).abs().max().item<double>());
    const Judgement judgement = judged(classifier, attacked, labels);
    // Who attacks may leave an image as it is: what is answered wrongly then is not robust.
    totals.robust += (published ? judgement.right : judgement.right * clean).sum().item<double>();
    totals.nll += judgement.nll;
  }

  /// Counts what an attack without gradients fooled and attacks with them did not.
  void compare_with_gradients(const Target& target, const Tensor& attacked, const Tensor& labels,
                              const Tensor& clean, Totals& totals) const {
    const Classifier& classifier = target.classifier;
    const double before = classifier.queries();
    const auto right = [&](const Tensor& images) {
      return right_of(classifier.logits(images), labels);
    };
    const auto margin = [&](const Tensor& logits) { return -margin_of(logits, target.labels); };
    Tensor only = clean.logical_and(right(attacked).logical_not());
    only = only.logical_and(right(pgd(target, kComparedSteps, kComparedStep * options_.eps)));
    only = only.logical_and(right(apgd(target, kComparedSteps, margin, "apgd_margin")));
    totals.black_box += only.sum().item<double>();
    totals.queries_beside += classifier.queries() - before;
  }

  struct Judgement {
    Tensor right;    ///< [B] double: whether the answer is right, mean over draws
    double nll = 0;  ///< summed over images, mean over draws
  };

  /// By as many passes as there are draws, each by itself: a model with randomness answers anew.
  Judgement judged(const Classifier& classifier, const Tensor& images, const Tensor& labels) const {
    Judgement judgement{at::zeros({images.size(0)}, labels.options().dtype(at::kDouble))};
    const auto draws = static_cast<double>(options_.draws);
    for (std::int64_t draw = 0; draw < options_.draws; ++draw) {
      const Tensor logits = classifier.one_draw(images).to(at::kDouble);
      judgement.right += right_of(logits, labels).to(at::kDouble) / draws;
      judgement.nll += cross_entropies(logits, labels).sum().item<double>() / draws;
    }
    return judgement;
  }

  /// What candidates are cut to.
  std::pair<Tensor, Tensor> range(const Classifier& classifier, const Tensor& like) const {
    if (options_.protocol == "corrected") return classifier.picture_range(like);
    const Tensor zero = at::zeros({1, like.size(1), 1, 1}, like.options());
    if (is_auto()) return {zero, zero + 1};
    const double infinity = std::numeric_limits<double>::infinity();
    return {zero - infinity, zero + infinity};
  }

  std::int64_t steps_of(const std::string& stage) const {
    if (stage == "fgsm") return 1;
    if (options_.steps > 0) return options_.steps;
    if (stage == "pgd") return 20;
    if (stage == "spsa") return 40;
    return stage == "square" ? 5000 : 100;
  }

  Tensor candidates(const std::string& stage, const Target& target) const {
    const std::int64_t steps = steps_of(stage);
    const auto size = [&](double usual) {
      return options_.step_size > 0 ? options_.step_size : usual;
    };
    if (stage == "fgsm") return fgsm(target);
    if (stage == "pgd") return pgd(target, steps, size(0.15 * options_.eps));
    if (stage == "spsa") {
      return spsa(target, {steps, options_.samples, size(0.01), options_.delta,
                           options_.protocol == "published"});
    }
    if (stage == "apgd_ce") return apgd_ce(target, steps);
    if (stage == "apgd_t") return apgd_targeted(target, steps, options_.targets);
    if (stage == "fab_t") return fab_targeted(target, steps, options_.targets);
    return square_attack(target, steps);
  }

  ImageAttackOptions options_;
  FieldInfo image_;
  std::vector<std::string> stages_;
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageAttack, ImageAttackOptions,
               {.id = "attnlab/image_attack",
                .version = "1.4.0",
                .summary = "accuracy under FGSM, PGD, SPSA or AutoAttack",
                .citation = "Goodfellow et al., ICLR 2015; Madry et al., ICLR 2018; Uesato et al., "
                            "ICML 2018; Croce & Hein, ICML 2020",
                .licence = "Apache-2.0",
                .takes = {"logits", "image", "class"}})

}  // namespace attnlab
