#include "core/run/job.hpp"
#include "core/run/job_type.hpp"

#include <random>

#include <gmock/gmock.h>

#include "plugins/jobs/report/html.hpp"
#include "plugins/jobs/report/report_testing.hpp"

namespace kinora::core::report {
namespace {

// Checks that the page contains all of these; reports what is missing, without printing the page.
void expect_says(const std::string& page, const std::vector<std::string>& texts) {
  for (const auto& text : texts) EXPECT_NE(page.find(text), std::string::npos) << "missing: " << text;
}
void expect_lacks(const std::string& page, const std::vector<std::string>& texts) {
  for (const auto& text : texts) EXPECT_EQ(page.find(text), std::string::npos) << "found: " << text;
}

// A hostile video name, caption or error.
const std::string kHostile =
    "\"'></style></title></pre><script>alert(1)</script><img src=http://a/b "
    "onerror=x>&lt;\xff\xC0\xAF\x01\xE2\x80\xAE]]>"
    "--><!--";

TEST_F(MadeUpRun, IsToldWithItsNumbers) {
  write_curation("film");
  write_rest("plain");
  const std::string text = page("plain");
  structure_of(text);
  expect_says(text, {"61.5", "threshold 27", "1,234,567", "31.4\u00A0dB", "2\u00A0min\u00A016\u00A0s",
                     "<dd>77</dd>", "96 × 64", "Filtered by film: 1.5, at least 2 is kept",
                     ">at least 2</td>", "4\u00A0KiB", "Failed in film: film",
                     "44.3%", "stage/shots.content"});
}

TEST_F(MadeUpRun, SumsAreCheckedAgainstTheLines) {
  write_curation("film");
  const std::string right = page("x");
  expect_says(right, {"✓ Adds up, and items.jsonl has a line for each of the 3.", "for each of the 2."});
  expect_lacks(right, {"✗"});
  const auto lines = *read_file(folder_ / "curate/items.jsonl");
  write("curate/items.jsonl", lines.substr(lines.find('\n') + 1));
  expect_says(page("x"), {"✗ items.jsonl has 0 kept, 1 filtered, 1 failed."});
  write("curate/items.jsonl", lines + "{\"key\": \"cut o");
  expect_says(page("x"), {"lines that cannot be read"});
  write("curate/summary.json", R"({"inputs": 3, "kept": 1, "filtered": 0, "failed": 1})");
  expect_says(page("x"), {"✗ Does not add up: the ends sum to 2."});
}

TEST_F(MadeUpRun, DamagedFilmsAreShownWhateverTheirEnd) {
  const json shots{
      {"fps", 24}, {"frames", 84}, {"cuts", json::array()}, {"scores", std::vector<double>(84, 3.0)}};
  const json failed{{"key", "cut"},
                    {"end", "failed"},
                    {"stage", "clip.transcode"},
                    {"reason", "cut.mp4: cut off"},
                    {"damaged", "cut.mp4: cut off"},
                    {"shots", shots}};
  const json kept{
      {"key", "rot"}, {"end", "kept"}, {"damaged", "rot.mp4: incomplete pictures"}, {"shots", shots}};
  write("curate/items.jsonl", dump(failed) + dump(kept));
  write("curate/summary.json",
        dump({{"inputs", 2}, {"kept", 1}, {"filtered", 0}, {"failed", 1}, {"damaged", 2}}));
  const std::string text = page("x");
  structure_of(text);
  expect_says(text, {"The video failed in clip.transcode: cut.mp4: cut off",
                     "The video is damaged: rot.mp4: incomplete pictures", "kept, damaged", "failed, damaged",
                     "2\u00A0inputs damaged"});
  expect_lacks(text, {"Does not add up"});
}

TEST_F(MadeUpRun, NoTextBecomesMarkup) {
  write_curation("harmless");
  write_rest("harmless");
  const auto expected = structure_of(page("harmless"));
  write_curation(kHostile);
  write_rest(kHostile);
  const std::string text = page(kHostile);
  EXPECT_EQ(structure_of(text), expected);
  expect_says(text, {"&lt;script&gt;alert(1)"});
  expect_lacks(text, {"<script", "<img src=http", "\xff", "\xE2\x80\xAE", "\x01"});
}

TEST_F(MadeUpRun, RanksHaveATable) {
  write_rest("x");
  expect_lacks(page("x"), {"Work of each rank"});
  write("dit/summary.json", dump({{"steps", 2},
                                  {"transfers", json::array({{{"rank", 0}}})},
                                  {"ranks",
                                   {{"steps", {2, 2}},
                                    {"tokens", {4321, 1234}},
                                    {"loss_tokens", {777, 0}},
                                    {"encoded", {17, 18}},
                                    {"bytes_sent", {4096, 8192}},
                                    {"bytes_received", {8192}},
                                    {"computing_seconds", {90, 9}},
                                    {"waiting_seconds", {1, 81}}}}}));
  const std::string text = page("x");
  structure_of(text);
  expect_says(text,
              {"Work of each rank", "4,321", "1,234", "777", "8\u00A0KiB", "1\u00A0min\u00A030\u00A0s"});
  expect_lacks(text, {"transfers"});
}

TEST_F(MadeUpRun, NeedsNothingElse) {
  write_curation("film");
  write_rest("plain");
  const std::string text = page("plain");
  expect_lacks(text, {"http://", "https://", "src=\"/", "url(", "@import", "<script", "<link"});
  expect_says(text,
              {"default-src &#39;none&#39;", "src=\"data:video/mp4;base64,", "src=\"data:image/png;base64,"});
}

TEST_F(MadeUpRun, JobsThatDidNotRunAreSaidToBeMissing) {
  const std::string nothing = page("x");
  structure_of(nothing);
  expect_says(nothing, {"5\u00A0jobs have not finished", "The results of job “dit” are missing",
                        "no loss in the metrics.jsonl"});
  write_rest("x");
  std::filesystem::remove(folder_ / "dit/summary.json");
  write("shard/summary.json", "{\"shards\": 2");
  expect_says(page("x"), {"3\u00A0jobs have not finished", "<b>Loss</b>", "its summary.json is incomplete"});
}

// The page is well-formed whatever the files contain: 40 runs with files broken at random places, the same in
// every run of the test.
TEST_F(MadeUpRun, BrokenFilesBreakNothing) {
  std::mt19937 random(7);
  const std::vector<std::string> files{"curate/items.jsonl", "curate/summary.json", "dit/metrics.jsonl",
                                       "dit/summary.json", "generate/videos/000.json"};
  const std::vector<std::string> pieces{
      "null", "-1", "1e308", "1e-320", "[]", "{}", "\"\"", ":", "99999999999999999999", "\xff", "true"};
  for (int i = 0; i < 40; ++i) {
    write_curation("film");
    write_rest("x");
    for (int k = 0; k < 4; ++k) {
      const auto& file = files[random() % files.size()];
      std::string bytes = *read_file(folder_ / file);
      const size_t from = bytes.find_first_of(":[,", bytes.empty() ? 0 : random() % bytes.size());
      if (from == std::string::npos) continue;
      const size_t to = std::min(bytes.find_first_of(",]}", from + 1), bytes.size());
      const bool cut = random() % 8 == 0;
      write(file, cut ? bytes.substr(0, from)
                      : bytes.replace(from + 1, to - from - 1, pieces[random() % pieces.size()]));
    }
    structure_of(page("x"));
    if (HasFailure()) FAIL() << "round " << i;
  }
}

TEST_F(MadeUpRun, TheJobWritesThePageTwice) {
  write_curation("film");
  auto runtime = Runtime::start({});
  ASSERT_TRUE(runtime);
  RunFile run;
  run.name = "made-up";
  run.out = folder_;
  run.file = folder_ / "run.toml";
  for (const char* kind : {"curate", "report"}) {
    JobSpec job;
    job.name = kind;
    job.kind = or_throw((*runtime)->registry().find("job", kind));
    job.options = json::object();
    run.jobs.push_back(job);
  }
  JobContext context(**runtime, run, run.jobs.back());
  run_job(context);
  const auto page = read_file(folder_ / "report.html"), own = read_file(folder_ / "report/report.html");
  ASSERT_TRUE(page && own);
  EXPECT_EQ(*page, *own);
  expect_says(*page, {"<h1>made-up</h1>", "No picture: "});
  EXPECT_EQ(context.summary["line"],
            "2\u00A0source videos (1\u00A0failed), 3\u00A0shots, 1\u00A0clip kept (1\u00A0filtered, 1\u00A0failed), "
            "12.5\u00A0s\u00A0total time");
}

TEST(Html, TextStaysText) {
  EXPECT_EQ(escaped("a<b> & \"c\" 'd'\n\té€😀"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\n\té€😀");
  EXPECT_EQ(escaped("\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82|\x7F"), "��|���|����|��|�");
  EXPECT_EQ(data_uri("a/b", ""), "data:a/b;base64,");
  EXPECT_EQ(data_uri("a/b", "f"), "data:a/b;base64,Zg==");
  EXPECT_EQ(data_uri("a/b", "fo"), "data:a/b;base64,Zm8=");
  EXPECT_EQ(data_uri("a/b", std::string("\xff\xfe\x00", 3)), "data:a/b;base64,//4A");
}

}  // namespace
}  // namespace kinora::core::report
