// What the checks of conduct_checks.cpp find.
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::conduct_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;

TEST(ConformanceKit, FindsWhatAPassLeavesBehind) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor before = self.kept.defined() ? self.kept : at::zeros({}, in.values.options());
    self.kept = before * 0.5 + in.values.detach().mean();
    return self.sound(in, context) + before;
  };
  EXPECT_THAT(failure("state", attend), mentions("after another", "output of layer 0"));
}

TEST(ConformanceKit, FindsStateOutsideForwardState) {
  // Layer 1 reads what layer 0 of the same module family left, wherever it came from.
  const auto shared = std::make_shared<Tensor>();
  const auto attend = [shared](Wrong& self, const In& in, Context& context) {
    Tensor out = self.sound(in, context);
    if (context.layer == 1) return out * *shared;
    *shared = in.values.detach().mean();
    return out;
  };
  EXPECT_THAT(failure("state", attend),
              AllOf(StartsWith("layer 1"), HasSubstr("another pass in between")));
}

TEST(ConformanceKit, FindsALayerThatCannotStandAlone) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    if (context.state == nullptr) throw std::runtime_error("no state");
    return self.sound(in, context);
  };
  EXPECT_EQ(failure("state", attend), "threw an exception: no state");
}

TEST(ConformanceKit, FindsAnOverflow) {
  const auto attend = [](Wrong&, const In& in, Context&) {
    const Tensor weights = (at::matmul(in.queries, in.keys.transpose(-2, -1)) / 2).exp();
    return at::matmul(weights / weights.sum(-1, true), in.values);
  };
  EXPECT_THAT(failure("large_logits", attend, AttentionTraits{}),
              mentions("no extras", "10000 (float32)", "output of layer 0 at [", "nan"));
}

TEST(ConformanceKit, FindsAStatisticThatNeedsTwoTokens) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = in.keys / in.keys.std(at::IntArrayRef{2}, true, true);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("single_token", attend),
              mentions("one token", "Lq 1, Lk 1", "output of layer 0 at [0, 0, 0, 0]"));
}

TEST(ConformanceKit, FindsATraceThatChangesTheOutput) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return context.trace == nullptr ? out : out * 1.001;
  };
  EXPECT_THAT(failure("trace", attend), mentions("no extras", "traced", "output of layer 0"));
}

/// Standard attention with its records changed.
template <class Change>
Wrong::Attend with_record(Change change) {
  return [change](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    if (context.trace != nullptr && !context.trace->layers.empty()) {
      change(context.trace->layers.back());
    }
    return out;
  };
}

TEST(ConformanceKit, FindsWeightsThatDoNotGiveTheOutput) {
  const auto twice = with_record([](LayerTrace& seen) {
    if (seen.weights.defined()) seen.weights = seen.weights * 2;
  });
  EXPECT_THAT(failure("trace", twice),
              mentions("no extras", "trace of layer 0", "weights times values"));
}

TEST(ConformanceKit, FindsRecordsThatAreWrong) {
  const std::pair<const char*, std::function<void(LayerTrace&)>> wrong[] = {
      {"calls itself layer 7", [](LayerTrace& seen) { seen.layer = 7; }},
      {"logits of hidden pairs",
       [](LayerTrace& seen) { seen.logits = seen.logits.nan_to_num(0, 0, 0); }},
      {"query_norms at", [](LayerTrace& seen) { seen.query_norms = seen.query_norms * 2; }},
      {"key_norms is", [](LayerTrace& seen) { seen.key_norms = seen.key_norms.sum(-1); }},
      {"entropy at", [](LayerTrace& seen) { seen.entropy = seen.entropy / std::log(2.0); }},
      {"carries a graph", [](LayerTrace& seen) { seen.logits.requires_grad_(); }},
  };
  for (const auto& [part, change] : wrong) {
    const auto guarded = [&](LayerTrace& seen) {
      if (seen.weights.defined()) change(seen);
    };
    EXPECT_THAT(failure("trace", with_record(guarded)), HasSubstr(part));
  }
}

TEST(ConformanceKit, FindsRecordsThatNobodyAskedFor) {
  const auto more = with_record([](LayerTrace& seen) {
    seen.key_norms = at::zeros({2, 2, 4}, at::kDouble);
  });
  AttentionTraits none;
  const auto attend = [more](Wrong& self, const In& in, Context& context) {
    const bool nothing = context.trace != nullptr && !context.trace->norms;
    return nothing ? more(self, in, context) : self.sound(in, context);
  };
  EXPECT_THAT(failure("trace", attend, none), says({"asks for nothing", "[2, 2, 4] float64"}));
}

TEST(ConformanceKit, FindsQuadraticCostDeclaredAsLinear) {
  AttentionTraits traits;
  traits.linear_cost = true;
  const auto quadratic = [](Wrong& self, const In& in, Context& context) {
    return naive(self, in, context);
  };
  EXPECT_THAT(failure("linear_cost", quadratic, traits),
              says({"524288", "n = 512", "8388608", "n = 2048", "faster than n"}));
}

TEST(ConformanceKit, PassesLinearCost) {
  AttentionTraits traits;
  traits.linear_cost = true;
  const auto linear = [](Wrong&, const In& in, Context&) {
    return at::matmul(in.queries, at::matmul(in.keys.transpose(-2, -1), in.values));
  };
  const CheckResult result = run_check("linear_cost", subject(linear, traits));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
}

TEST(ConformanceKit, FindsAnInputThatIsWrittenTo) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context).clone();
    if (in.visible.key_valid.defined()) in.visible.key_valid.fill_(true);
    return out;
  };
  EXPECT_THAT(failure("inputs_unchanged", attend),
              HasSubstr("after forward: layer 0: visible.key_valid at [0, "));
  const auto scales = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    if (in.bias.defined()) in.bias.detach().mul_(2);
    return out;
  };
  EXPECT_THAT(failure("inputs_unchanged", scales),
              AllOf(StartsWith("bias, after forward"), HasSubstr("layer 0: bias at [0, 0, 0, 0]")));
}

TEST(ConformanceKit, FindsChangesOfTheProcess) {
  const int threads = at::get_num_threads();
  const auto folder = std::filesystem::current_path();
  const std::streambuf* const buffer = std::cerr.rdbuf();
  const std::pair<const char*, void (*)()> changes[] = {
      {"LibTorch's number of threads", [] { at::set_num_threads(at::get_num_threads() + 1); }},
      {"LibTorch's random numbers", [] { at::rand({1}); }},
      {"LibTorch's default dtype",
       [] { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }},
      {"autograd's mode", [] { at::GradMode::set_enabled(false); }},
      {"the working folder", [] { std::filesystem::current_path("/"); }},
      {"the umask", [] { ::umask(0); }},
      {"the locale", [] { std::setlocale(LC_ALL, "C.UTF-8"); }},
      {"the locale",
       [] { std::locale::global(std::locale(std::locale(), new std::numpunct<char>)); }},
      {"the environment's ATTNLAB_TEST_MEDDLED", [] { ::setenv("ATTNLAB_TEST_MEDDLED", "1", 1); }},
      {"the handler of signal 10 (User defined signal 1)", [] { std::signal(SIGUSR1, SIG_IGN); }},
      {"the handler of signal 10 (User defined signal 1)",
       [] {
         struct sigaction action {};
         ::sigaction(SIGUSR1, nullptr, &action);
         ::sigaddset(&action.sa_mask, SIGUSR2);
         ::sigaction(SIGUSR1, &action, nullptr);
       }},
      {"which signals are blocked",
       [] {
         sigset_t more{};
         ::sigaddset(&more, SIGUSR2);
         ::pthread_sigmask(SIG_BLOCK, &more, nullptr);
       }},
      {"the locale",
       [] {
         static const locale_t other = ::newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
         ::uselocale(other);
       }},
      {"the buffer of std::cerr", [] { std::cerr.rdbuf(std::cout.rdbuf()); }},
      {"what processes there are (a fork)",
       [] {
         const pid_t child = ::fork();
         if (child == 0) ::_exit(0);
         ::waitpid(child, nullptr, 0);
       }},
      {"what processes there are (a fork)", [] { ASSERT_EQ(std::system("true"), 0); }},
  };
  for (const auto& [what, change] : changes) {
    const auto attend = [act = change](Wrong& self, const In& in, Context& context) {
      const Tensor out = self.sound(in, context);
      act();
      return out;
    };
    EXPECT_THAT(failure("process_state", attend),
                says({"in evaluation", "without dropout", std::string("changes ") + what}));
    EXPECT_EQ(at::get_num_threads(), threads);
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
  EXPECT_EQ(std::filesystem::current_path(), folder);
  EXPECT_EQ(std::locale(), std::locale::classic());
  EXPECT_EQ(::uselocale(nullptr), LC_GLOBAL_LOCALE);
  EXPECT_EQ(std::cerr.rdbuf(), buffer);
  sigset_t blocked{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&blocked, SIGUSR2), 0);
  EXPECT_EQ(std::getenv("ATTNLAB_TEST_MEDDLED"), nullptr);
  EXPECT_EQ(std::signal(SIGUSR1, SIG_DFL), SIG_DFL);
  EXPECT_NE(::umask(022), 0U);
}

TEST(ConformanceKit, FindsAStandardStreamThatWasReplaced) {
  const int kept = ::dup(STDIN_FILENO);
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    ::dup2(ends[0], STDIN_FILENO);
    for (const int end : ends) ::close(end);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("process_state", attend), HasSubstr("changes standard input"));
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

TEST(ConformanceKit, FindsMemoryThatIsNotGivenBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own allocations are not counted";
#endif
  static std::vector<std::unique_ptr<char[]>> kept;
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    kept.push_back(std::make_unique<char[]>(5000));
    return self.sound(in, context);
  };
  // Two layers.
  EXPECT_THAT(failure("memory", attend),
              ::testing::MatchesRegex(".*forward and backward.*keeps 1[0-9]{4} bytes.*"));
  const auto evaluate = [](Wrong& self, const In& in, Context& context) {
    if (!self.is_training()) kept.push_back(std::make_unique<char[]>(5000));
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("memory", evaluate),
              ::testing::MatchesRegex(".*in evaluation keeps 1[0-9]{4} bytes.*"));
  static std::vector<char> log;  // which takes more only now and then
  const auto logs = [](Wrong& self, const In& in, Context& context) {
    log.insert(log.end(), 5000, '\0');
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("memory", logs), HasSubstr("bytes of memory each time"));
  const auto once = [](Wrong& self, const In& in, Context& context) {
    static const std::vector<char> table(1 << 20);
    EXPECT_FALSE(table.empty());
    return self.sound(in, context);
  };
  const Subject sound = subject(once, AttentionTraits::all_quadratic());
  EXPECT_EQ(run_check("memory", sound).outcome, Outcome::passed)
      << "a table that is made once is not a leak";
}

}  // namespace
}  // namespace attnlab::conformance::conduct_checks_test
