// One truth about layouts: what check says before anything runs, what a run on that many ranks does, and what
// plan says of the file's own layout.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/search.hpp"
#include "apps/planner/train_job.hpp"
#include "core/base/log.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using by_hand::write_latents;
using test::Rank;
using test::ScratchRun;
using testing::HasSubstr;

struct Row {
  int ranks;
  const char *model, *parallel, *more, *refusal;  // refusal: part of what check says; empty: it is legal
  const char* vain = "";                          // what a run says of it, once, in the log
};

// Four tokens of two frames; two layers of four heads of 12 channels, with embedding and head four blocks.
constexpr const char *kDit = "use = 'dit', layers = 2, heads = 4",
                     *kStDit = "use = 'stdit', layers = 2, heads = 4",
                     *kThin = "use = 'dit', layers = 1, heads = 3, mlp_ratio = 0.7";
const Row kRows[] = {
    {2, kDit, "['ddp']", "", ""},
    {2, kDit, "['fsdp', 'recompute']", "", ""},
    {2, kDit, "['tp']", "", ""},
    {2, kDit, "['cp-ring']", "", ""},
    {2, kDit, "['balanced-sp']", "", "", "it does what cp-ulysses does"},
    {2, kDit, "['stdit-hybrid']", "", "", "cp-ring and cp-ulysses do as well"},
    {2, kStDit, "['stdit-hybrid']", "", ""},
    {2, kDit, "[{ use = 'pp', schedule = 'interleaved' }]", "accumulate = 2", ""},
    {2, kDit, "[{ use = 'pp', schedule = 'interleaved' }]", "", "a multiple of its 2 ranks as microbatches"},
    {2, kThin, "[{ use = 'pp', schedule = 'interleaved' }]", "accumulate = 2",
     "cannot be 4 stages (2 ranks of 2)"},
    {2, kDit, "[{ use = 'pp', virtual = 2 }]", "", "several stages a rank are for 'interleaved'"},
    {2, kDit, "['recompute', 'ddp', 'recompute']", "", "parallel/recompute is listed twice"},
    {2, kDit, "['recompute']", "", "none of its strategies shares work among ranks"},
    {2, kDit, "['cfg']", "", "which training does not have"},
    {2, kDit, "['cp-ring', 'cp-ulysses']", "", "both cut along cp"},
    {2, kDit, "['ddp', 'fsdp']", "", "give fsdp a size"},
    {2, kDit, "['ddp']", "accumulate = 4", "must be a multiple of accumulate (4)"},
    {3, kDit, "['cp-ulysses']", "", ""},
    {3, kDit, "[{ use = 'pp', schedule = 'gpipe' }]", "", ""},
    {3, kDit, "['tp']", "", "tp: size = 3 must divide the heads"},
    {3, kThin, "['tp']", "", "linear_fc1.weight' can be cut into 25"},
    {4, kDit, "['tp']", "", ""},
    {4, kDit, "[{ use = 'tp', size = 2 }, 'cp-ulysses']", "", ""},
    {4, kDit, "[{ use = 'cp-2d', ulysses = 4 }]", "", ""},
    {4, kStDit, "['stdit-hybrid']", "", ""},
    {4, kDit, "[{ use = 'cp-2d', ulysses = 3 }]", "",
     "ulysses = 3 does not divide the 4 ranks of a sequence"},
    {4, kThin, "['pp']", "", "the model has 3 blocks"},
    {4, kDit, "[{ use = 'tp', size = 2 }]", "", "multiply to 2, and this launch has 4 ranks"},
};

std::unique_ptr<ScratchRun> run_of(const Row& row) {
  return std::make_unique<ScratchRun>(std::map<std::string, std::string>{
      {"dit", fmt::format("model = {{ {}, in_channels = 2, out_channels = 2, text_size = 12, head_size = 12, "
                          "adaln_lora = 4 }}\nparallel = {}\nsteps = 1\nbatch = 4\nthreads = 1\n{}\n",
                          row.model, row.parallel, row.more)}});
}

// What is wrong; empty: nothing.
std::string checked(const ScratchRun& run, int64_t ranks) {
  if (!run.problems().empty()) return run.problems();
  std::vector<Diagnostic> problems;
  JobCheck check(test::runtime(), run.run(), run.spec("dit"), true, ranks, problems);
  job_type(test::runtime().registry(), *run.spec("dit").kind).check(check);
  std::string out;
  for (const auto& p : problems) out += format(p) + "\n";
  return out;
}

std::string planned(const ScratchRun& run, int ranks) {
  if (!run.problems().empty()) return run.problems();
  const auto answer = catching([&] {
    const auto problem =
        or_throw(plan::problem_of({test::runtime(), run.run(), run.spec("dit")},
                                  or_throw(plan::parse_cluster(fmt::format("1x{}xcpu", ranks))), {}));
    or_throw(plan::price(or_throw(plan::layout_of(run.spec("dit"), problem)).value(), problem));
  });
  return answer ? "" : answer.failure().message;
}

struct Done {
  std::string error, log;
};
Done done(const Rank& me, const ScratchRun& run) {
  const fs::path lines = run.folder() / "log";
  const auto file = or_throw(LogFile::open(lines));
  Done out;
  try {
    JobContext context = run.context("dit", me.rank == 0);
    write_latents(run.of("latents"), by_hand::samples());
    test::run_job(context);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  std::ifstream in(lines);
  out.log.assign(std::istreambuf_iterator<char>(in), {});
  return out;
}

// How often a strategy says that it works in vain.
int vain_lines(const std::string& log) {
  int out = 0;
  for (const char* words : {"it does what cp-ulysses does", "cp-ring and cp-ulysses do as well"})
    for (size_t at = log.find(words); at != log.npos; at = log.find(words, at + 1)) ++out;
  return out;
}

void expect_one_truth(int ranks) {
  test::on_ranks(
      ranks,
      [ranks](const Rank& me) {
        test::runtime();
        or_throw(set_log_level("warn"));
        for (const Row& row : kRows) {
          if (row.ranks != ranks) continue;
          me.launched();
          const auto run = run_of(row);
          const std::string said = checked(*run, ranks), plan = planned(*run, ranks);
          const auto [ran, log] = done(me, *run);
          SCOPED_TRACE(fmt::format("{} on {} ranks of {} {}\ncheck: {}\nplan: {}\nrun: {}", row.parallel,
                                   ranks, row.model, row.more, said, plan, ran));
          EXPECT_EQ(said.empty(), *row.refusal == 0);
          EXPECT_EQ(plan.empty(), said.empty());
          EXPECT_EQ(ran.empty(), said.empty());
          EXPECT_THAT(said, HasSubstr(row.refusal));
          EXPECT_THAT(ran, HasSubstr(row.refusal));
          EXPECT_EQ(vain_lines(log), me.rank == 0 && *row.vain ? 1 : 0) << log;
          EXPECT_THAT(log, HasSubstr(me.rank == 0 ? row.vain : ""));
        }
      },
      240);
}

TEST(Layouts, OnTwoRanksAreLegalForCheckRunAndPlanOrForNone) { expect_one_truth(2); }
TEST(Layouts, OnThreeRanksAreLegalForCheckRunAndPlanOrForNone) { expect_one_truth(3); }
TEST(Layouts, OnFourRanksAreLegalForCheckRunAndPlanOrForNone) { expect_one_truth(4); }

}  // namespace
}  // namespace kinora::core
