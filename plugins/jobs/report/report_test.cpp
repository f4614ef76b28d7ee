#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "plugins/jobs/data/base64.hpp"
#include "plugins/jobs/data/webp.hpp"
#include "plugins/jobs/report/pictures.hpp"
#include "plugins/jobs/report/report_testing.hpp"

namespace kinora::core::report {
namespace {

class ReportTest : public testing::Test, public MadeUpRun {
 protected:
  json data(const std::string& text = "x") const { return gathered(text).data; }
};

const json& job_of(const json& data, const std::string& name) {
  for (const auto& job : data["jobs"])
    if (job["name"] == name) return job;
  throw std::runtime_error("no job " + name);
}

json fact(const json& job, const std::string& name) {
  for (const auto& fact : job["facts"])
    if (fact["name"] == name) return fact["value"];
  return nullptr;
}

TEST_F(ReportTest, ItsNumbersAreInTheData) {
  write_curation("film");
  write_rest("plain");
  const json all = data("plain"), &curate = job_of(all, "curate"),
             &source = curate["source_videos"]["list"][0];
  EXPECT_EQ(source["shots"][1], (json{{"first", 24}, {"last", 60}, {"end", "filtered"}, {"score", 61.5}}));
  EXPECT_EQ(source["tiles"][1]["endings"][0]["bound"], (json{"at least", 2.0}));
  EXPECT_EQ(source["tiles"][1]["endings"][0]["score"], 1.5);
  EXPECT_EQ(curate["source_videos"]["threshold"], 27);
  EXPECT_EQ(curate["outcomes"]["rules"][0]["bounds"], (json::array({{"at least", 2.0}})));
  EXPECT_EQ(curate["outcomes"]["failures"]["list"].size(), 2U);
  EXPECT_EQ(curate["components"][0]["id"], "stage/shots.content");
  EXPECT_EQ(fact(job_of(all, "dit"), "parameters"), 1234567);
  EXPECT_EQ(fact(job_of(all, "tokenizer"), "psnr"), 31.42);
  EXPECT_EQ(fact(job_of(all, "shard"), "bytes"), 4096);
  EXPECT_EQ(fact(job_of(all, "latents"), "latent_shape"), (json{16, 3, 16, 24}));
  const json& selection = job_of(all, "choose")["selection"];
  EXPECT_EQ(selection["steps"][0], (json{{"rule", "plain >= 20"}, {"in", 1000}, {"removed", 250}}));
  EXPECT_EQ(selection["sets"][0], (json{{"name", "plain"}, {"clips", 42}, {"share", 0.84}, {"asked", 0.75}}));
  EXPECT_EQ(selection["bins"],
            (json::array({{{"name", "plain"}, {"clips", 30}}, {{"name", "sky"}, {"clips", 20}}})));
  EXPECT_EQ(selection["tables"],
            (json::array({{{"name", "plain"}, {"rows", 500}, {"rows_of_clips", 250}, {"clips", 260}}})));
  const json &video_score = curate["scores"][0], &sharp = curate["scores"][1];
  EXPECT_EQ(video_score["name"], "film");
  EXPECT_EQ(video_score["title"], "film");
  EXPECT_EQ(video_score["unit"], "film");
  EXPECT_EQ(video_score["bounds"][0]["removed"], 1);
  EXPECT_EQ(sharp["name"], "sharp");
  EXPECT_EQ(sharp["title"], "");
  EXPECT_EQ(sharp["median"], 24);
  EXPECT_EQ(sharp["bounds"], (json::array({{{"is_most", false},
                                            {"is_strict", true},
                                            {"value", 20.0},
                                            {"by", "choose"},
                                            {"is_select", true},
                                            {"removed", 17}}})));
  const json& video = job_of(all, "generate")["videos"]["list"][0];
  EXPECT_EQ(video["seed"], "77");
  EXPECT_EQ(video["width"], 96);
  const json& drift = video["drift"];
  ASSERT_EQ(drift.size(), 3U);
  EXPECT_EQ(drift["mean"], (json{{1, 0}, {2, 0.05}, {3, 0.125}, {4, 0.25}})) << "by second";
  EXPECT_EQ(drift["sharpness"][3], (json{4, -1}));
  EXPECT_EQ(drift["saturation"].size(), 4U);
  EXPECT_THAT(video["video"]["uri"].get<std::string>(), testing::StartsWith("data:video/mp4;base64,"));
  EXPECT_EQ(job_of(all, "tokenizer")["pairs"][0]["original"]["width"], 32);
  EXPECT_THAT(gathered("x").line, testing::HasSubstr("2\u00A0min\u00A016\u00A0s"));
}

TEST_F(ReportTest, TheFunnelIsThatOfTheSummaries) {
  write_curation("film");
  write_rest("x");
  write("choose/summary.json", R"({"curated": "curate", "clips": {"kept": 0, "filtered": 1, "failed": 0}})");
  write("shard/summary.json", R"({"samples": 0, "shards": 0})");
  const auto lost = [](const char* by, int n) { return json{{"by", by}, {"count", n}}; };
  const auto step = [](const char* name, int n, json lost) {
    return json{{"name", name}, {"count", n}, {"lost", std::move(lost)}};
  };
  const json all = data();
  EXPECT_EQ(all["funnel"],
            (json::array(
                {step("videos", 2, json::array()), step("clips", 3, json::array({lost("failed", 1)})),
                 step("good", 1, json::array({lost("filtered", 1), lost("failed", 1)})),
                 step("chosen", 0, json::array({lost("choose", 1)})), step("in shards", 0, json::array())})));
  EXPECT_EQ(all["figures"].dump().find("clip"), std::string::npos) << "said twice";
}

TEST_F(ReportTest, FilesWithTheSameNameHaveTheirFolders) {
  const std::vector<std::pair<const char*, const char*>> paths{{"/a/trip/1.mp4", "a/trip/1.mp4"},
                                                               {"/b/trip/1.mp4", "b/trip/1.mp4"},
                                                               {"/b/day2/1.mp4", "day2/1.mp4"},
                                                               {"1.mp4", "1.mp4"},
                                                               {"/1.mp4", "/1.mp4"},
                                                               {"/b/2.mp4", "2.mp4"},
                                                               {"x//////////3", "x//////////3"},
                                                               {"y//////////3", "y//////////3"}};
  write_curation("film");
  std::string lines;
  for (const auto& [url, path] : paths) lines += dump({{"key", url}, {"end", "kept"}, {"url", url}});
  write("curate/items.jsonl", lines);
  const json all = data(), &curate = job_of(all, "curate"), &videos = curate["source_videos"]["list"],
             &rows = curate["outcomes"]["inputs"]["list"];
  ASSERT_EQ(videos.size(), paths.size());
  for (const auto& [url, path] : paths)
    for (size_t i = 0; i < paths.size(); ++i) {
      EXPECT_TRUE(videos[i]["key"] != url || videos[i]["file"] == path) << path;
      const char* told = path == std::string("2.mp4") ? "" : path;
      EXPECT_TRUE(rows[i]["key"] != url || rows[i]["path"] == told) << path;
    }
}

// Each clip belongs to the first job that left it out; a line that is no JSON ends what is read.
TEST_F(ReportTest, WhatAJobLeftOutIsNamedWithItsScoreAndPicture) {
  write_curation("film");
  write("curate/data/film0.preview.webp", tiny_preview());
  write("curate/data/film0.json", R"({"scores": {"filter.sharp": 12.5}})");
  write("choose/summary.json", R"({"curated": "curate", "clips": {"kept": 0, "filtered": 9, "failed": 0}})");
  const auto edit = [](const char* key) { return dump({{"key", key}, {"set", {{"keep", true}}}}); };
  write("curate/edits.jsonl", edit("film0") + edit("d"));
  const auto left_out = [](const char* key, const char* rule, json more) {
    json line{{"key", key}, {"end", "filtered"}, {"rule", rule}};
    line.update(more);
    return dump(line);
  };
  const json alike{{"of", "film0"}, {"score", 0.99}};
  std::string lines = left_out("film0", "sharp >= 20", {{"final", true}}) +
                      left_out("a/b", "sharp >= 20", {{"final", true}}) +
                      left_out("c", "dedup.semantic", alike) + left_out("d", "dedup.semantic", alike) +
                      dump({{"key", "kept"}, {"end", "kept"}});
  for (int i = 0; i < 10; ++i)
    lines += dump({{"key", "same" + std::to_string(i)}, {"end", "filtered"}, {"rule", "dedup.exact"}});
  lines += "{\"key\": \"cut o\n" + left_out("behind it", "dedup.exact", json::object());
  write("choose/decisions.jsonl", lines);
  const json all = data(), &rules = job_of(all, "choose")["left_out"];
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0]["rule"], "dedup.exact");
  EXPECT_EQ(rules[0]["list"].size(), 8U);
  EXPECT_EQ(rules[0]["more"], 2);
  const json &copy = rules[1]["list"][0], &low = rules[2]["list"][0];
  EXPECT_EQ(rules[1]["list"].size(), 1U) << "a person accepted the other";
  const json& video = job_of(all, "curate")["source_videos"]["list"][0];
  EXPECT_EQ(video["shots"][0]["end"], "later");
  EXPECT_EQ(video["shots"][1]["end"], "filtered");
  EXPECT_EQ(video["tiles"][0]["is_left_out"], true);
  EXPECT_EQ(video["tiles"][1]["is_left_out"], false);
  EXPECT_EQ(copy["of"], "film0");
  EXPECT_EQ(copy["score"], 0.99);
  EXPECT_EQ(copy["picture"], nullptr);
  EXPECT_EQ(copy["picture_of"], low["picture"]);
  EXPECT_EQ(low["key"], "film0");
  EXPECT_EQ(low["score"], 12.5);
  EXPECT_EQ(low["picture"]["width"], 16);
  EXPECT_EQ(rules[2]["list"][1]["score"], nullptr) << "no file name";
  ASSERT_EQ(all["wall"].size(), 1U);
  EXPECT_EQ(all["wall"][0]["is_left_out"], true);
}

TEST_F(ReportTest, AFadeIsNoShotWithoutAReason) {
  const json shots{{"fps", 25},
                   {"frames", 175},
                   {"cuts", {12}},
                   {"scores", std::vector<double>(175, 0.1)},
                   {"transitions", {{0, 25}, {"x", 3}, 7}}};
  const json clip{{"key", "life-0"},
                  {"parent", "life"},
                  {"end", "kept"},
                  {"facts", {{"first_frame", 37}, {"end_frame", 163}}}};
  write("curate/items.jsonl",
        dump({{"key", "life"}, {"end", "kept"}, {"consumed", true}, {"shots", shots}}) + dump(clip));
  write("curate/summary.json", R"({"inputs": 1, "kept": 1, "filtered": 0, "failed": 0})");
  const json all = data(), &video = job_of(all, "curate")["source_videos"]["list"][0];
  EXPECT_EQ(video["fades"], (json::parse("[[0, 25]]")));
  EXPECT_EQ(video["tiles"][0]["is_fade"], true);
  EXPECT_EQ(video["tiles"][1]["is_fade"], false);
  EXPECT_EQ(video["tiles"][1]["frames"], (json{37, 163}));
}

TEST_F(ReportTest, ACopyNamesItsOriginal) {
  const json copy{{"key", "b"}, {"end", "filtered"}, {"stage", "ingest"}, {"reason", "ingest.duplicate"},
                  {"of", "a"},  {"score", 1.0}};
  write("curate/items.jsonl", dump(copy));
  write("curate/summary.json", R"({"inputs": 1, "kept": 0, "filtered": 1, "failed": 0})");
  const json all = data(), &outcomes = job_of(all, "curate")["outcomes"];
  EXPECT_EQ(outcomes["inputs"]["list"][0]["of"], "a");
  EXPECT_EQ(outcomes["rules"][0]["copies"], (json::array({{{"key", "b"}, {"of", "a"}}})));
  EXPECT_EQ(outcomes["rules"][0]["scores"], 0) << "1 means nothing";
}

// Its first frame is a file of its own: nothing needs to decode the preview for a page that stands still.
TEST_F(ReportTest, ThePreviewsOfKeptClipsAreAWall) {
  write_curation("film");
  EXPECT_EQ(data()["wall"], json::array());
  write("curate/data/film0.preview.webp", tiny_preview());
  write("curate/data/film24.preview.webp", tiny_preview());  // of a filtered clip
  const json wall = data()["wall"];
  ASSERT_EQ(wall.size(), 1U);
  const auto uri = [](const std::string& bytes) { return "data:image/webp;base64," + base64(bytes); };
  const std::string still = webp_preview(tiny_preview())->still;
  EXPECT_EQ(wall[0], (json{{"key", "film0"},
                           {"uri", uri(tiny_preview())},
                           {"still", uri(still)},
                           {"is_left_out", false},
                           {"width", 16},
                           {"height", 8}}));
  EXPECT_LT(still.size(), tiny_preview().size());
  EXPECT_EQ(still.substr(8, 8), "WEBPVP8X");
  EXPECT_EQ(webp_preview(still)->still, still) << "it does not move";
  write("curate/data/film0.preview.webp", tiny_preview().substr(0, 100));
  EXPECT_NO_THROW(data());
}

// Twenty videos without a shot, of which three failed, and one that failed with a shot.
TEST_F(ReportTest, EveryVideoIsThereAndFailedOnesAreFirst) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += dump({{"key", "v" + std::to_string(10 + i)},
                   {"end", i % 7 == 3 ? "failed" : "kept"},
                   {"stage", "video.probe"},
                   {"reason", "cut off"}});
  const json shots{{"fps", 24}, {"frames", 24}, {"cuts", json::array()}, {"scores", json::array()}};
  lines += dump({{"key", "good"}, {"end", "kept"}, {"shots", shots}}) +
           dump({{"key", "late"}, {"end", "failed"}, {"reason", "full"}, {"shots", shots}});
  write("curate/items.jsonl", lines);
  write("curate/summary.json", R"({"inputs": 22, "kept": 18, "filtered": 0, "failed": 4})");
  const json all = data(), &videos = job_of(all, "curate")["source_videos"], &list = videos["list"];
  ASSERT_EQ(list.size(), 19U);
  EXPECT_EQ(videos["more"], 0);
  EXPECT_EQ(list[0]["key"], "late");
  EXPECT_EQ(list[1]["key"], "good");
  const json& failed = videos["failed"];
  ASSERT_EQ(failed["list"].size(), 3U);
  EXPECT_EQ(failed["more"], 0);
  EXPECT_EQ(failed["all"], 4) << "as in the summary";
  EXPECT_EQ(failed["in_part"], 0) << "no clip was kept of it";
  const json& rows = job_of(all, "curate")["outcomes"]["inputs"]["list"];
  std::vector<std::string> keys;
  for (const json& row : rows) keys.push_back(row["key"]);
  ASSERT_EQ(keys.size(), 22U);
  keys.resize(6);
  EXPECT_THAT(keys, testing::ElementsAre("late", "v13", "v20", "v27", "good", "v10"));
  EXPECT_EQ(failed["list"][0]["key"], "v13");
  EXPECT_EQ(failed["list"][0]["reason"], "cut off");
}

TEST_F(ReportTest, AVideoOfShotsHasEachPromptWithItsFrame) {
  write_curation("film");
  write_rest("x");
  EXPECT_EQ(job_of(data(), "generate")["videos"]["list"][0]["shots"], json::array());
  write("generate/videos/000.json", R"({"prompt": "sea", "nfe": 8, "model_calls": 21, "frames": 33, "fps": 12,
      "shots": [{"frame": 0, "prompt": "sea"}, {"frame": 13, "prompt": "town"}, {"prompt": "no frame"}, 7]})");
  const json all = data(), &video = job_of(all, "generate")["videos"]["list"][0];
  EXPECT_EQ(video["shots"],
            json::parse(R"([{"frame": 0, "prompt": "sea"}, {"frame": 13, "prompt": "town"}])"));
  EXPECT_EQ(video["nfe"], 8);
  EXPECT_EQ(video["model_calls"], 21);
}

// TransNet V2 scores the last frame of a shot, and a slow change is a stretch of frames.
TEST_F(ReportTest, TheScoreOfACutIsTheOneThatMadeIt) {
  write_curation("film");
  std::vector<double> scores(84 * 4, 0.001);
  scores[83] = 0.981;  // a cut at 84
  for (int i = 160; i < 175; ++i)
    scores[i] = 0.3 + 0.04 * (i - 160);  // a fade with its cut at 170, within it
  scores[251] = 0.3;                     // another detector's cut at 252
  const json kept{{"cuts", {84, 170}}};
  const json video{{"key", "film"},
                   {"end", "kept"},
                   {"shots",
                    {{"fps", 24},
                     {"frames", scores.size()},
                     {"cuts", {84, 170, 252}},
                     {"scores", scores},
                     {"detectors", {{"transnetv2", kept}}}}}};
  write("curate/items.jsonl", dump(video));
  const auto shots = [&](const char* id, json options) {
    RunRecord run = record("x");
    run.jobs[0].components = {{"stages", id, "1", options}};
    const auto no_picture = [](const StillRequest&) { return Still{"", "none"}; };
    const json all = gather(run, no_picture).data;
    return job_of(all, "curate").at("source_videos").at("list").at(0).at("shots");
  };
  const json of_network = shots("stage/shots.transnetv2", {{"threshold", 0.5}});
  EXPECT_EQ(of_network[0]["score"], nullptr);
  EXPECT_EQ(of_network[1]["score"], 0.981);
  EXPECT_NEAR(of_network[2]["score"], 0.86, 1e-12);
  EXPECT_EQ(of_network[3]["score"], nullptr);
  EXPECT_EQ(shots("stage/shots.content", {{"threshold", 27.0}})[1]["score"], 0.001)
      << "the frame that begins";
  EXPECT_EQ(shots("stage/shots.threshold", {{"threshold", 12.0}})[1]["score"], nullptr) << "a brightness";
}

// The threshold is that of the scores which items.jsonl has, whatever other stages call a threshold.
TEST_F(ReportTest, TheThresholdIsThatOfTheDetectorWhoseScoresAreKept) {
  write_curation("film");
  const json several{{"detectors", {"histogram", "content"}},
                     {"decide", "any"},
                     {"content_threshold", 27.0},
                     {"histogram_threshold", 0.2}};
  json decided = several;
  decided["decide"] = "content";
  const ComponentRecord merge{"stages", "stage/shots.merge", "1", {{"threshold", 0.98}}};
  const auto one = [](const char* id, json options) { return ComponentRecord{"stages", id, "1", options}; };
  const auto transnet = [&](bool decide) {
    return one("stage/shots.transnetv2", {{"threshold", 0.5}, {"decide", decide}});
  };
  struct Case {
    std::vector<ComponentRecord> stages;
    std::string detector;
    json threshold;
  };
  for (const auto& [stages, detector, threshold] :
       std::vector<Case>{{{one("stage/shots.content", {{"threshold", 30.0}})}, "content", 30.0},
                         {{one("stage/shots.adaptive", {{"threshold", 3.0}}), merge}, "adaptive", 3.0},
                         {{one("stage/shots", several), merge}, "histogram", 0.2},
                         {{one("stage/shots", decided), merge}, "content", 27.0},
                         {{one("stage/video.clips", decided)}, "content", 27.0},
                         {{one("stage/shots", decided), transnet(true)}, "transnetv2", 0.5},
                         {{one("stage/shots", decided), transnet(false)}, "content", 27.0},
                         {{one("stage/shots.fixed", {{"stride", 10.0}}), merge}, "fixed", nullptr},
                         {{merge}, "", nullptr}}) {
    RunRecord run = record("x");
    run.jobs[0].components = stages;
    const json videos = gather(run, [](const StillRequest&) {
                          return Still{"", ""};
                        }).data["jobs"][0]["source_videos"];
    EXPECT_EQ(videos["threshold"], threshold) << stages.front().id;
    EXPECT_EQ(videos["detector"], detector) << stages.front().id;
  }
}

TEST_F(ReportTest, OutcomesAreBothSaidAndFound) {
  write_curation("film");
  const auto outcomes = [&] { return job_of(data(), "curate")["outcomes"]; };
  EXPECT_EQ(outcomes()["said"], outcomes()["found"]);
  EXPECT_EQ(outcomes()["said"]["clips"], (json{{"kept", 1}, {"filtered", 1}, {"failed", 1}}));
  EXPECT_EQ(outcomes()["is_whole"], true);
  const auto lines = *read_file(folder_ / "curate/items.jsonl");
  write("curate/items.jsonl", lines.substr(lines.find('\n') + 1));
  EXPECT_EQ(outcomes()["found"]["clips"], (json{{"kept", 0}, {"filtered", 1}, {"failed", 1}}));
  write("curate/items.jsonl", lines + "{\"key\": \"cut o");
  EXPECT_EQ(outcomes()["is_whole"], false);
  write("curate/summary.json", R"({"inputs": 3, "kept": 1, "filtered": 0, "failed": 1})");
  EXPECT_EQ(outcomes()["all"], 3);
  EXPECT_EQ(outcomes()["said"]["inputs"], (json{{"kept", 1}, {"filtered", 0}, {"failed", 1}}));
}

TEST_F(ReportTest, DamagedVideosAreShownWhateverTheirEnd) {
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
  const json all = data(), &curate = job_of(all, "curate"), &videos = curate["source_videos"]["list"];
  EXPECT_EQ(videos[0]["ending"]["reason"], "cut.mp4: cut off");
  EXPECT_EQ(videos[1]["damaged"], "rot.mp4: incomplete pictures");
  EXPECT_EQ(curate["outcomes"]["damaged"], 2);
  EXPECT_EQ(curate["outcomes"]["inputs"]["list"][1]["is_damaged"], true);
}

// The page has as many tags with hostile texts as with harmless ones, and its data is the data that was
// gathered.
TEST_F(ReportTest, NoTextBecomesMarkup) {
  write_curation("harmless");
  write_rest("harmless");
  const std::string harmless = make_page(gathered("harmless"));
  write_curation(kHostile);
  write_rest(kHostile);
  const std::string page = make_page(gathered(kHostile));
  EXPECT_EQ(std::count(page.begin(), page.end(), '<'), std::count(harmless.begin(), harmless.end(), '<'));
  for (const char* unwanted : {"\xff", "\xE2\x80\xAE", "\x01"})
    EXPECT_EQ(page.find(unwanted), std::string::npos);
  const std::string safe = script_safe(data(kHostile));
  EXPECT_NE(page.find(safe), std::string::npos);
  EXPECT_EQ(safe.find('<'), std::string::npos);
  EXPECT_EQ(json::parse(script_safe({{"a", "</script><!--"}})), (json{{"a", "</script><!--"}}));
}

TEST_F(ReportTest, CountsOfClipsAreFigures) {
  const json of = facts_of({{"job", "copies"},
                            {"inputs", 9},
                            {"clips", {{"kept", 7}, {"filtered", 2}}},
                            {"dropped", {{"filter.blur", 3}}},
                            {"left_out", {{"where", 4}}},
                            {"not_asked_for", {{"where", "x > 1"}, {"clips", 5}}}});
  EXPECT_THAT(of, testing::UnorderedElementsAre(json{{"name", "inputs"}, {"value", 9}},
                                                json{{"name", "clips kept"}, {"value", 7}},
                                                json{{"name", "clips filtered"}, {"value", 2}},
                                                json{{"name", "dropped filter.blur"}, {"value", 3}},
                                                json{{"name", "left_out where"}, {"value", 4}},
                                                json{{"name", "not_asked_for clips"}, {"value", 5}}));
}

TEST_F(ReportTest, RanksAreRows) {
  write_rest("x");
  EXPECT_TRUE(job_of(data(), "dit")["ranks"].empty());
  write("dit/summary.json", dump({{"steps", 2},
                                  {"transfers", json::array({{{"rank", 0}}})},
                                  {"ranks",
                                   {{"steps", {2, 2}},
                                    {"tokens", {4321, 1234}},
                                    {"loss_tokens", {777, 0}},
                                    {"bytes_received", {8192}},
                                    {"computing_seconds", {90, 9}}}}}));
  const json all = data(), &dit = job_of(all, "dit");
  EXPECT_EQ(dit["ranks"][0]["tokens"], 4321);
  EXPECT_EQ(dit["ranks"][0]["computing_seconds"], 90);
  EXPECT_EQ(dit["ranks"][1]["bytes_received"], 0);
  EXPECT_EQ(fact(dit, "transfers"), nullptr);
}

TEST_F(ReportTest, RoundingIsARowOfEachLayer) {
  write_rest("x");
  EXPECT_TRUE(job_of(data(), "dit")["rounding"].empty());
  const json row{{"layer", "fc1"},
                 {"activations", {{"sqnr", 20.5}, {"clipped", 0.25}, {"underflowed", 0}}},
                 {"weights", nullptr},
                 {"gradients", {{"sqnr", nullptr}, {"clipped", "no"}}}};
  write("dit/summary.json", dump({{"steps", 2}, {"loss", 0.5}, {"rounding", {row, 7}}}));
  const json all = data(), &dit = job_of(all, "dit");
  ASSERT_EQ(dit["rounding"].size(), 2u);
  EXPECT_EQ(dit["rounding"][0]["layer"], "fc1");
  EXPECT_EQ(dit["rounding"][0]["activations"]["sqnr"], 20.5);
  EXPECT_EQ(dit["rounding"][0]["gradients"]["clipped"], nullptr);
  EXPECT_EQ(dit["rounding"][1]["weights"]["sqnr"], nullptr);
  EXPECT_EQ(dit["loss"], 0.5);
  EXPECT_EQ(dit["validation_loss"], nullptr);
  EXPECT_EQ(fact(dit, "rounding"), nullptr);
}

// A curve has few points, and its extremes, however many were measured.
TEST_F(ReportTest, CurvesAreThin) {
  for (const int points : {1, 11, 12, 20'000}) {
    std::string metrics;
    for (int i = 0; i < points; ++i)
      metrics += dump({{"step", i}, {"loss", i == points / 2 ? 1e6 : 1.0 + i % 7}});
    write("dit/metrics.jsonl", metrics);
    const json all = data(), &loss = job_of(all, "dit")["curves"]["loss"];
    EXPECT_LE(loss["points"].size(), 600U);
    EXPECT_EQ(loss["line"].is_null(), points < 12);
    EXPECT_EQ(loss["ends"][1][0], points - 1);
    EXPECT_NE(std::find(loss["points"].begin(), loss["points"].end(), json({points / 2, 1e6})),
              loss["points"].end());
  }
}

// The student has a loss in some steps, the critic in each.
// 2,000 seconds, whose first and last are no extremes of their surroundings.
TEST_F(ReportTest, TheDriftOfALongVideoIsThinWithItsEnds) {
  write_rest("x");
  json mean = json::array();
  for (int i = 0; i < 2000; ++i) mean.push_back(0.5 + (i % 2 ? 0.25 : -0.25));
  mean.front() = mean.back() = 0.5;
  write("generate/videos/000.json", json{{"drift", {{"mean", mean}}}}.dump());
  const json points = job_of(data(), "generate")["videos"]["list"][0]["drift"]["mean"];
  EXPECT_EQ(points.front(), (json{1, 0.5}));
  EXPECT_EQ(points.back(), (json{2000, 0.5}));
  EXPECT_LE(points.size(), 602U);
  EXPECT_GT(points.size(), 500U);
}

TEST_F(ReportTest, ADistillJobHasCurvesAndSteps) {
  std::string metrics;
  for (int i = 1; i <= 20; ++i) {
    json line{{"step", i}, {"critic", 1.0 / i}, {"critic_gradient_norm", 0.5}};
    if (i % 5 == 0) line.update({{"loss", 2.0 / i}, {"score_distance", 0.25}});
    metrics += dump(line);
  }
  write("dit/metrics.jsonl", metrics);
  RunRecord run = record("x");
  for (auto& job : run.jobs)
    if (job.name == "dit") job.kind = "distill";
  const json all = gather(run,
                          [](const StillRequest&) {
                            return Still{"", "x"};
                          })
                       .data,
             &curves = job_of(all, "dit")["curves"];
  EXPECT_EQ(curves["loss"]["points"].size(), 4U);
  std::vector<std::string> titles;
  for (const auto& curve : curves["small"]) titles.push_back(curve["title"].get<std::string>());
  EXPECT_THAT(titles,
              testing::ElementsAre("Critic's loss", "Critic's gradient norm", "Distance of the scores"));
  EXPECT_THAT(all["figures"].dump(), testing::HasSubstr("training step"));
}

TEST_F(ReportTest, LossesNextToZeroAreDrawn) {
  write("dit/metrics.jsonl", dump({{"step", 1}, {"loss", 1e-320}}) + dump({{"step", 2}, {"loss", 1e308}}));
  EXPECT_EQ(job_of(data(), "dit")["curves"]["loss"]["points"].size(), 2U);
}

TEST_F(ReportTest, NeedsNothingElse) {
  write_curation("film");
  write_rest("plain");
  const std::string page = make_page(gathered("plain"));
  for (const char* other :
       {"https://", "src=", "url(", "@import", "<link", "\nimport ", "fetch(", "innerHTML"})
    EXPECT_EQ(page.find(other), std::string::npos) << "found: " << other;
  for (const char* part :
       {"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "trusted-types-for"})
    EXPECT_NE(page.find(part), std::string::npos) << "missing: " << part;
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
}

TEST_F(ReportTest, JobsThatDidNotRunAreSaidToBeMissing) {
  const json begun = data();
  for (const auto& job : begun["jobs"])
    EXPECT_THAT(job["missing"].get<std::string>(), testing::StartsWith("it has not finished"));
  EXPECT_TRUE(job_of(data(), "dit")["curves"]["loss"].is_null());
  write_rest("x");
  std::filesystem::remove(folder_ / "dit/summary.json");
  write("shard/summary.json", "{\"shards\": 2");
  EXPECT_FALSE(job_of(data(), "dit")["curves"]["loss"].is_null());
  EXPECT_THAT(job_of(data(), "shard")["missing"].get<std::string>(), testing::HasSubstr("is incomplete"));
}

// The data is whole whatever the files contain: 40 runs with files broken at random places, the same in every
// run of the test.
TEST_F(ReportTest, BrokenFilesBreakNothing) {
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    write_curation("film");
    write_rest("x");
    break_files(random);
    EXPECT_EQ(json::parse(script_safe(data()))["jobs"].size(), 7U) << "round " << i;
  }
}

TEST_F(ReportTest, TheJobWritesThePageTwice) {
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
  job_type((*runtime)->registry(), *context.spec().kind).run(context);
  auto page = read_file(folder_ / "report.html"), own = read_file(folder_ / "report/report.html");
  ASSERT_TRUE(page && own);
  const std::string up = R"("run":"../",)";  // all that differs: where links find the jobs
  ASSERT_NE(own->find(up), std::string::npos);
  EXPECT_TRUE(*page == own->erase(own->find(up), up.size()));
  for (const char* part : {"\"title\":\"made-up\"", "\"reason\":\""})
    EXPECT_NE(page->find(part), std::string::npos) << part;
  const std::string line = context.summary["line"];
  EXPECT_EQ(line,
            "2\u00A0source videos (1\u00A0failed), 3\u00A0shots, 1\u00A0clip kept (1\u00A0filtered, "
            "1\u00A0failed), "
            "12.5\u00A0s\u00A0total time");
  EXPECT_NE(page->find("<noscript><h1>Kinora report</h1><p class=\"note\">" + line), std::string::npos);
}

TEST(Base64, EndsWithAsManySignsAsBytesAreMissing) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64(std::string("\xff\xfe\x00", 3)), "//4A");
}

}  // namespace
}  // namespace kinora::core::report
