// Tests which files of a job's folder survive from run to run, and which must never be removed.
#include "core/run/job_folder.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_results.hpp"
#include "core/run/run_folder.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class JobFolder : public testing::Test {
 protected:
  JobFolder()
      : out_(fs::path(testing::TempDir()) / fmt::format("job_folder-{}", getpid())), folder_(out_ / "clips") {
    fs::create_directories(out_);
  }
  ~JobFolder() override { fs::remove_all(out_); }
  static void put(const fs::path& file, const std::string& text = "x") {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void prepare(const std::string& digest) {
    prepare_folder(folder_, "clips", {digest, "", {{"kind", "curate"}}});
  }
  void finish(const std::string& digest) {
    put(folder_ / "summary.json",
        json{{"digest", digest}, {"status", "done"}, {"results", results_in(folder_)}}.dump());
  }
  fs::path out_, folder_;
};

TEST_F(JobFolder, OfSomebodyElseIsLeftAloneWithAnError) {
  put(folder_ / "holiday/photo.txt");
  try {
    prepare("a");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
    EXPECT_THAT(e.what(), HasSubstr("holds files that no job made"));
  }
  EXPECT_TRUE(fs::exists(folder_ / "holiday/photo.txt"));
}

TEST_F(JobFolder, OfSomebodyElseGetsNoFileEvenWhenTheJobFails) {
  put(folder_ / "photo.txt");
  leave_failure(folder_, "a", "refused");
  EXPECT_EQ(results_in(folder_), json({{"photo.txt", 1}}));
  EXPECT_FALSE(fs::exists(folder_ / "failed.json"));
}

TEST_F(JobFolder, WhatPeopleLookedAtIsNotReplacedUnasked) {
  const json mine{{"kind", "curate"}, {"file", "/a.toml"}, {"paths", {"videos"}}};
  const auto why = [&](const json& more, const std::string& digest = "b", const std::string& base = "other") {
    json spec = mine;
    if (more.is_object()) spec.update(more);  // {} is null
    return reason_to_keep(folder_, {digest, base, spec});
  };
  EXPECT_EQ(why({}), "") << "nothing is there";
  prepare_folder(folder_, "clips", {"a", "base", mine});
  EXPECT_EQ(why({{"file", "/b.toml"}}), "") << "it has made nothing";
  put(folder_ / "items.jsonl");
  finish("a");
  EXPECT_EQ(why({}), "") << "its options alone have changed";
  EXPECT_THAT(why({{"file", "/b.toml"}}), HasSubstr("made by the run file /a.toml"));
  EXPECT_THAT(why({{"paths", {"others"}}}), HasSubstr("of the input [\"videos\"]"));
  EXPECT_EQ(why({{"file", "/b.toml"}, {"paths", {"others"}}}, "b", "base"), "") << "the job continues there";
  put(folder_ / "edits.jsonl", "{}\n{}\n");
  EXPECT_THAT(why({}), HasSubstr("made 2 edits in the studio"));
  EXPECT_EQ(why({}, "b", "base"), "");
}

TEST_F(JobFolder, OfATrialThatMadeNothingGoesAndOneWithAResultStays) {
  put(folder_ / "photo.txt");
  drop_if_empty(folder_);
  EXPECT_TRUE(fs::exists(folder_ / "photo.txt")) << "files of unknown origin";
  fs::remove_all(folder_);
  prepare("a");
  fs::create_directories(folder_ / "videos");
  put(folder_ / "metrics.jsonl");
  leave_failure(folder_, "a", "no memory");
  put(folder_ / "videos/000.mp4");
  drop_if_empty(folder_);
  EXPECT_TRUE(fs::exists(folder_ / "videos/000.mp4"));
  fs::remove(folder_ / "videos/000.mp4");
  drop_if_empty(folder_);
  EXPECT_TRUE(fs::is_empty(out_)) << "the folder and its failure message";
}

TEST_F(JobFolder, KeepsWhatTheSameJobLeftAndDropsAnothers) {
  prepare("a");
  put(folder_ / "checkpoints/step-8/weights");
  prepare("a");
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/step-8/weights"));
  prepare("b");
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints"));
  EXPECT_TRUE(fs::exists(folder_ / "job.json"));
}

TEST_F(JobFolder, SetsFinishedResultsAsideUntilTheJobThatReplacesThemIsDone) {
  const auto finish = [&](const std::string& digest) {
    prepare(digest);
    put(folder_ / "weights");
    put(folder_ / "summary.json",
        json{{"status", "done"}, {"digest", digest}, {"results", {{"weights", 1}}}}.dump());
  };
  const auto whose = [&] { return json::parse(std::ifstream(folder_ / "job.json")).at("digest"); };
  finish("a");
  prepare("b");
  EXPECT_FALSE(fs::exists(folder_ / "weights"));
  EXPECT_TRUE(take_back_after_failure(folder_)) << "b failed at once";
  EXPECT_TRUE(finished(folder_, "a"));
  prepare("b");
  put(folder_ / "checkpoints/step-8/weights");
  EXPECT_FALSE(take_back_after_failure(folder_)) << "b had begun";
  fs::remove_all(folder_ / "checkpoints");
  put(folder_ / "videos/000.mp4");
  EXPECT_FALSE(take_back_after_failure(folder_)) << "b can resume after its first video";
  prepare("c");
  EXPECT_FALSE(take_back(folder_, "b"));
  EXPECT_TRUE(take_back(folder_, "a")) << "the options of a are back";
  EXPECT_TRUE(finished(folder_, "a"));
  EXPECT_EQ(whose(), "a");
  finish("d");
  drop_before(folder_);
  EXPECT_FALSE(take_back(folder_, "a"));
}

TEST_F(JobFolder, KeepsFinishedResultsWhileNewOnesAreMadeBesideIt) {
  const auto beside = [&](const std::string& digest) {
    return prepare_beside(folder_, "clips", {digest, "", {{"kind", "select"}}});
  };
  EXPECT_FALSE(beside("a")) << "no results are here";
  prepare("a");
  EXPECT_FALSE(beside("a")) << "none are finished";
  put(folder_ / "decisions.jsonl", "old");
  finish("a");
  {
    const auto made = beside("b");
    ASSERT_TRUE(made);
    put(made->temporary() / "decisions.jsonl", "half");
    EXPECT_TRUE(finished(folder_, "a"));
  }
  EXPECT_TRUE(finished(folder_, "a")) << "b has failed";
  put(out_ / ".clips.tmp-other-host-1-1/decisions.jsonl");
  auto made = beside("b");
  ASSERT_TRUE(made);
  put(made->temporary() / "decisions.jsonl", "new one");
  put(made->temporary() / "summary.json",
      json{{"digest", "b"}, {"status", "done"}, {"results", results_in(made->temporary())}}.dump());
  ASSERT_TRUE(made->commit(true));
  EXPECT_TRUE(finished(folder_, "b"));
  EXPECT_EQ(results_in(folder_), json({{"decisions.jsonl", 7}}));
  EXPECT_EQ(json::parse(std::ifstream(folder_ / "job.json")).at("digest"), "b");
  EXPECT_TRUE(fs::exists(out_ / ".clips.tmp-other-host-1-1")) << "another machine's";
}

TEST_F(JobFolder, SaysWhyAnotherRunCannotReadItAndWhatItKeeps) {
  const auto why = [&] { return problem_of_results(folder_, {"curate", "dedup"}); };
  EXPECT_THAT(why(), HasSubstr("is not the folder of a job"));
  prepare("a");
  EXPECT_THAT(why(), HasSubstr("its job has not finished"));
  finish("a");
  EXPECT_EQ(why(), "");
  EXPECT_THAT(problem_of_results(folder_, {"shard", "dedup"}),
              HasSubstr("is the folder of a curate job; it must be that of a shard or dedup job"));
  EXPECT_EQ(results_digest(folder_), "a");
  put(folder_ / "summary.json", json{{"digest", "a"}, {"status", "done"}, {"kept_sha256", "k"}}.dump());
  EXPECT_EQ(results_digest(folder_), "k");
}

TEST_F(JobFolder, SaysWhatAFinishedJobKeepsAndCountsRetries) {
  prepare_folder(folder_, "clips", {"a1", "a", {{"kind", "curate"}}});
  count_retry(folder_, "a"), count_retry(folder_, "a"), count_retry(folder_, "b");
  EXPECT_EQ(earlier_results(folder_, "a").retries, 2);
  const auto kept = [&](const char* status) {
    std::ofstream(folder_ / "summary.json")
        << json{{"digest", "a1"}, {"status", status}, {"kept_sha256", "1"}};
    return kept_by(folder_, "a1");
  };
  EXPECT_EQ(kept("done"), "1");
  EXPECT_EQ(kept_by(folder_, "a2"), "") << "the results are of other inputs";
  EXPECT_EQ(kept("failed"), "");
  put(folder_ / "data/1.mp4");
  prepare_folder(folder_, "clips", {"b1", "b", {{"kind", "curate"}}});  // set aside, then restored
  prepare_folder(folder_, "clips", {"a1", "a", {{"kind", "curate"}}});
  EXPECT_EQ(earlier_results(folder_, "a").retries, 2);
}

TEST_F(JobFolder, FindsTheEarlierResultsOfABaseThatAreSetAside) {
  const json description{{"kind", "curate"}};
  prepare_folder(folder_, "clips", {"a1", "a", description});
  rename_results(folder_, description, {"a1", "a"}, {"new a1", "new a"});
  put(folder_ / "data/1.mp4");
  prepare_folder(folder_, "clips", {"b1", "b", description});
  const EarlierResults found = earlier_results(folder_, "new a");
  EXPECT_TRUE(fs::exists(found.folder / "data/1.mp4")) << found.folder;
  EXPECT_EQ(found.formerly, std::vector<std::string>{"a"});
  EXPECT_EQ(earlier_results(folder_, "b").folder, folder_);
  EXPECT_EQ(earlier_results(folder_, "unknown").folder, folder_);
  EXPECT_TRUE(earlier_results(folder_, "unknown").formerly.empty());
}

TEST_F(JobFolder, KeepsUnfinishedResultsWhenAnOptionChanges) {
  const auto prepare_as = [&](const std::string& digest, const std::string& base) {
    prepare_folder(folder_, "clips", {digest, base, {{"kind", "curate"}}});
  };
  const auto put_finished = [&](const std::string& digest) {
    put(folder_ / "summary.json",
        json{{"digest", digest}, {"status", "done"}, {"results", results_in(folder_)}}.dump());
  };
  prepare_as("a1", "a");
  put(folder_ / "data/1.mp4");
  put(folder_ / "edits.jsonl", "one\n");
  put_finished("a1");
  prepare_as("a2", "a");  // one more video, then killed
  put(folder_ / "data/2.mp4");
  prepare_as("b", "b");  // a typo
  EXPECT_FALSE(fs::exists(folder_ / "data"));
  put(folder_ / "data/other.mp4");
  put(folder_ / "edits.jsonl", "one\ntwo\n");
  put(folder_ / "views.jsonl", "view\n");
  prepare_as("a2", "a");
  EXPECT_TRUE(fs::exists(folder_ / "data/1.mp4") && fs::exists(folder_ / "data/2.mp4"));
  EXPECT_EQ(fs::file_size(folder_ / "edits.jsonl"), 8u) << "the newer edits";
  EXPECT_TRUE(fs::exists(folder_ / "views.jsonl"));
  prepare_as("b", "b");
  EXPECT_TRUE(fs::exists(folder_ / "data/other.mp4")) << "one replaces the other";
  prepare_as("c", "c");
  EXPECT_TRUE(take_back_after_failure(folder_)) << "refused at once";
  EXPECT_TRUE(fs::exists(folder_ / "data/other.mp4"));
  put_finished("b");
  drop_before(folder_);
  prepare_as("a2", "a");
  EXPECT_FALSE(fs::exists(folder_ / "data")) << "they were kept until b was done";
}

TEST_F(JobFolder, BringsBackNoEditsThatAPersonRemoved) {
  const auto prepare_as = [&](const std::string& digest, const std::string& base) {
    prepare_folder(folder_, "clips", {digest, base, {{"kind", "curate"}}});
  };
  const fs::path edits = folder_ / "edits.jsonl", views = folder_ / "views.jsonl";
  prepare_as("a1", "a");
  put(folder_ / "data/1.mp4");
  put(edits, "one\ntwo\n");
  put(views, "view\n");
  finish("a1");
  prepare_as("b", "b");
  EXPECT_EQ(fs::file_size(edits), 8u) << "the new job's folder begins with them";
  put(folder_ / "data/2.mp4");
  put(edits, "one\n");  // the last line
  fs::remove(views);
  prepare_as("b", "b");
  EXPECT_EQ(fs::file_size(edits), 4u) << "after a kill";
  prepare_as("a2", "a");
  EXPECT_TRUE(fs::exists(folder_ / "data/1.mp4"));
  EXPECT_EQ(fs::file_size(edits), 4u) << "in results that had been set aside with them";
  EXPECT_FALSE(fs::exists(views));
  fs::remove(edits);
  finish("a2");
  prepare_as("c", "c");
  EXPECT_TRUE(take_back(folder_, "a2"));
  EXPECT_FALSE(fs::exists(edits)) << "of the results that are back";
}

TEST_F(JobFolder, ThatIsGoneTakesTheNewerEditsSetAsideAndSaysSo) {
  prepare("a");
  put(folder_ / "data/1.mp4");
  put(folder_ / "edits.jsonl", "one\ntwo\nthree\n");
  finish("a");
  prepare("b");
  put(folder_ / "data/2.mp4");
  put(folder_ / "edits.jsonl", "one\ntwo\n");
  fs::last_write_time(folder_ / "edits.jsonl", fs::file_time_type::clock::now() + std::chrono::hours(1));
  prepare("c");
  fs::remove_all(folder_);
  ASSERT_TRUE(start_log("info"));
  testing::internal::CaptureStderr();
  prepare("c");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(fs::file_size(folder_ / "edits.jsonl"), 8u);
  EXPECT_THAT(said,
              HasSubstr("clips: 2 lines of edits.jsonl taken from " + (out_ / ".clips.unfinished").string()));
}

TEST_F(JobFolder, WarnsOfAChangedOptionOnlyWhereWorkIsLost) {
  const auto spec = [](const char* where) { return json{{"options", {{"where", where}}}}; };
  prepare_folder(folder_, "good", {"a", "", spec("blur > 1")});
  put(folder_ / "decisions.jsonl");
  finish("a");
  const Beginning slow = beginning(folder_, "good", {"b", "", spec("blur > 2")});
  EXPECT_TRUE(slow.warns);
  EXPECT_THAT(slow.said, HasSubstr("starts from scratch"));
  const Beginning quick = beginning(folder_, "good", {"b", "", spec("blur > 2")}, true);
  EXPECT_FALSE(quick.warns);
  EXPECT_EQ(
      quick.said,
      "good: where was \"blur > 1\" and is \"blur > 2\"; it runs again; the old results are kept until it is "
      "done");
}

TEST_F(JobFolder, WithADamagedDescriptionSaysSo) {
  const json spec{{"options", {{"steps", 4}, {"batch", 2}}}};
  prepare_folder(folder_, "dit", {"a", "base", spec});
  put(folder_ / "checkpoints/step-000002/state.json");
  for (const char* text : {"", "{\"digest\": \"a"}) {
    put(folder_ / "job.json", text);
    const Beginning begins = beginning(folder_, "dit", {"a", "base", spec});
    EXPECT_TRUE(begins.warns);
    EXPECT_THAT(begins.said, HasSubstr((folder_ / "job.json").string() + " is damaged"));
    EXPECT_THAT(begins.said, HasSubstr("the old results are kept until it is done"));
    EXPECT_THAT(begins.said, testing::Not(HasSubstr("absent")));
  }
}

// A training of more steps continues from its checkpoints; one of fewer does not, and gets its own results back.
TEST_F(JobFolder, OfAJobThatGrowsIsContinued) {
  const auto prepare = [&](int steps, bool from_scratch = false) {
    const json spec{{"kind", "train"}, {"options", {{"steps", steps}}}, {"grows_by", {"steps"}}};
    testing::internal::CaptureStderr();
    prepare_folder(folder_, "dit", {"with " + std::to_string(steps), "base", spec}, false, from_scratch);
    return testing::internal::GetCapturedStderr();
  };
  ASSERT_TRUE(start_log("info"));
  prepare(4);
  put(folder_ / "checkpoints/step-000004/state.json");
  put(folder_ / "metrics.jsonl", "four lines");
  put(folder_ / "weights.safetensors");
  finish("with 4");
  EXPECT_THAT(prepare(8), testing::AllOf(HasSubstr("steps was 4 and is 8; it continues from the results in"),
                                         HasSubstr("these are kept until it is done")));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/step-000004/state.json"));
  EXPECT_TRUE(fs::exists(folder_ / "metrics.jsonl"));
  EXPECT_FALSE(fs::exists(folder_ / "weights.safetensors")) << "those of 4 steps are not those of 8";
  EXPECT_FALSE(fs::exists(folder_ / "summary.json"));
  put(folder_ / "checkpoints/step-000006/state.json");
  EXPECT_THAT(prepare(9), HasSubstr("steps was 8 and is 9"));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/step-000006/state.json")) << "unfinished results grow too";
  EXPECT_TRUE(take_back(folder_, "with 4"));
  EXPECT_TRUE(fs::exists(folder_ / "weights.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints/step-000006")) << "the checkpoints aside are not touched";
  EXPECT_THAT(prepare(3), HasSubstr("starts from scratch"));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints"));
  finish("with 3");
  EXPECT_THROW(prepare(5), Error) << "there is no checkpoint to continue from";
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(fs::exists(folder_ / "summary.json")) << "the results stay";
  put(folder_ / "checkpoints/step-000002/state.json");
  EXPECT_THAT(prepare(3, true), HasSubstr("dit: it starts from scratch; the old results are kept"));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints"));
}

// --from-scratch on a finished job.
TEST_F(JobFolder, BegunAgainContinuesOnceItHasMadeSomething) {
  const auto prepare = [&](bool from_scratch) {
    prepare_folder(folder_, "dit", {"a", "base", {{"kind", "train"}}}, false, from_scratch);
  };
  prepare(false);
  put(folder_ / "weights.safetensors", "old");
  finish("a");
  prepare(true);
  EXPECT_FALSE(fs::exists(folder_ / "weights.safetensors"));
  EXPECT_TRUE(may_take_back(folder_, "a")) << "it was stopped before its first result";
  put(folder_ / "checkpoints/step-000002/state.json");
  EXPECT_FALSE(take_back(folder_, "a")) << "it was stopped after it";
  prepare(false);
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/step-000002/state.json"));
  fs::remove_all(folder_ / "checkpoints");
  EXPECT_TRUE(take_back_after_failure(folder_));
  EXPECT_TRUE(finished(folder_, "a"));
}

TEST_F(JobFolder, CountsHowOftenItsFailuresWereTriedAgain) {
  prepare_folder(folder_, "clips", {"a", "base", {{"kind", "curate"}}});
  EXPECT_EQ(earlier_results(folder_, "base").retries, 0);
  count_retry(folder_, "another");
  EXPECT_EQ(earlier_results(folder_, "base").retries, 0);
  count_retry(folder_, "base");
  prepare_folder(folder_, "clips", {"a with 1", "base", {{"kind", "curate"}}});
  EXPECT_EQ(earlier_results(folder_, "base").retries, 1);
  put(folder_ / "data/1.mp4");
  prepare_folder(folder_, "clips", {"b", "other", {{"kind", "curate"}}});
  EXPECT_EQ(earlier_results(folder_, "other").retries, 0);
  EXPECT_EQ(earlier_results(folder_, "base").retries, 1)
      << "the digest of the results set aside depends on it";
  put(folder_ / "summary.json", R"({"status": "done", "failed": 2, "clips": {"kept": 1, "failed": 3}})");
  EXPECT_EQ(failures_in(folder_), 5);
}

TEST_F(JobFolder, ThatSomebodyElseFilledInTheMeantimeIsNotTakenBack) {
  prepare("a");
  put(folder_ / "summary.json", json{{"status", "done"}, {"digest", "a"}}.dump());
  prepare("b");
  fs::remove_all(folder_);
  put(folder_ / "photo.jpg");
  EXPECT_FALSE(take_back(folder_, "a"));
  EXPECT_FALSE(take_back_after_failure(folder_));
  EXPECT_TRUE(fs::exists(folder_ / "photo.jpg"));
}

TEST_F(JobFolder, LosesTheTemporariesOfDeadProcessesOnly) {
  prepare("a");
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  std::string dead = temporary_name(folder_ / "data/x.mp4").filename().string();
  const std::string own = dead;
  dead.replace(dead.find("-" + std::to_string(getpid()) + "-"), std::to_string(getpid()).size() + 2,
               "-" + std::to_string(child) + "-");
  put(folder_ / "data" / dead);
  put(folder_ / "data" / own);
  prepare("a");
  EXPECT_FALSE(fs::exists(folder_ / "data" / dead));
  EXPECT_TRUE(fs::exists(folder_ / "data" / own));
}

TEST_F(JobFolder, IsFinishedWhileItsResultsAreThere) {
  prepare("a");
  EXPECT_FALSE(finished(folder_, "a"));
  put(folder_ / "weights.safetensors", "12345");
  put(folder_ / "data/0.mp4");
  put(folder_ / "data/1.mp4");
  finish("a");
  EXPECT_TRUE(finished(folder_, "a"));
  EXPECT_FALSE(finished(folder_, "b"));
  put(folder_ / "notes of the user");
  EXPECT_TRUE(finished(folder_, "a"));
  std::string why;
  fs::remove(folder_ / "data/1.mp4");
  EXPECT_FALSE(finished(folder_, "a", &why));
  EXPECT_EQ(why, "'data' is not what the job had made");
  put(folder_ / "data/1.mp4");
  fs::remove(folder_ / "weights.safetensors");
  EXPECT_FALSE(finished(folder_, "a", &why));
  EXPECT_EQ(why, "'weights.safetensors' is gone");
  put(out_ / "report.html", "1234");
  put(folder_ / "summary.json", R"({"digest": "a", "status": "done", "results": {"../report.html": 4}})");
  EXPECT_TRUE(finished(folder_, "a"));
  fs::remove(out_ / "report.html");
  EXPECT_FALSE(finished(folder_, "a", &why));
  EXPECT_EQ(why, "'../report.html' is gone");
  put(folder_ / "summary.json", "{\"digest\": 3, \"status\": [");
  EXPECT_FALSE(finished(folder_, "a"));
}

TEST_F(JobFolder, TellsTheOtherRanksOfAFailureOfThisRun) {
  prepare("a");
  const auto before = fs::file_time_type::clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(failure_left(folder_, "a", before), std::nullopt);
  leave_failure(folder_, "a", "the disk is full");
  EXPECT_EQ(failure_left(folder_, "a", before), "the disk is full");
  EXPECT_EQ(failure_left(folder_, "b", before), std::nullopt);
  EXPECT_EQ(failure_left(folder_, "a", before + std::chrono::hours(1)), std::nullopt)
      << "failure of an earlier run";
  prepare("a");
  EXPECT_EQ(failure_left(folder_, "a", before), std::nullopt);
}

TEST_F(JobFolder, IsBelowAnOutputFolderThatOneProcessWritesTo) {
  auto first = FolderLock::take(out_);
  ASSERT_TRUE(first);
  const auto second = FolderLock::take(out_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.failure().message, HasSubstr("another kinora run is writing to " + out_.string()));
  { const FolderLock gone = std::move(*first); }
  EXPECT_TRUE(FolderLock::take(out_));
}

// Its child keeps the lock for a moment, as a killed process does while its memory is freed.
TEST_F(JobFolder, IsBelowAnOutputFolderThatAProcessMayTakeWhileTheOneBeforeEnds) {
  std::optional<FolderLock> first = or_throw(FolderLock::take(out_));
  const pid_t child = fork();
  if (child == 0) {
    usleep(300'000);
    _exit(0);
  }
  first.reset();
  EXPECT_TRUE(FolderLock::take(out_));
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace kinora::core
