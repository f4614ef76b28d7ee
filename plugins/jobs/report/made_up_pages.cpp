// Writes reports of made-up runs for the test in a browser. usage: report_pages FOLDER
#include <cstdio>

#include "plugins/jobs/report/report_testing.hpp"

namespace {

using namespace kinora::core::report;

// 10,000 videos, of which the first has 10,000 shots and clips.
void write_many(MadeUpRun& run) {
  std::string lines;
  json first{{"key", "00000"}, {"end", "kept"}, {"consumed", true}, {"url", "/videos/00000.mp4"}};
  first["shots"] = {{"fps", 25}, {"frames", 500'000}, {"cuts", json::array()}, {"scores", json::array()}};
  for (int i = 0; i < 10'000; ++i) {
    char key[8];
    std::snprintf(key, sizeof key, "%05d", i);
    if (i > 0) first["shots"]["cuts"].push_back(50 * i);
    const json facts{{"first_frame", 50 * i}, {"end_frame", 50 * (i + 1)}};
    lines += MadeUpRun::dump(
        {{"key", std::string("clip-") + key}, {"parent", "00000"}, {"end", "kept"}, {"facts", facts}});
    if (i > 0) lines += MadeUpRun::dump({{"key", key}, {"end", "failed"}, {"stage", "a"}, {"reason", "b"}});
  }
  run.write("curate/items.jsonl", lines + MadeUpRun::dump(first));
  const json clips{{"kept", 10'000}, {"filtered", 0}, {"failed", 0}};
  run.write("curate/summary.json",
            MadeUpRun::dump(
                {{"inputs", 10'000}, {"kept", 1}, {"filtered", 0}, {"failed", 9'999}, {"clips", clips}}));
}

// 20 videos of a clip each, whose previews move, and two that failed.
void write_wall(MadeUpRun& run) {
  std::string lines;
  const json shots{{"fps", 24}, {"frames", 48}, {"cuts", json::array()}, {"scores", json::array()}};
  for (int i = 0; i < 22; ++i) {
    const std::string key = "video-" + std::to_string(10 + i);
    const bool is_good = i < 20;
    json line{
        {"key", key}, {"end", is_good ? "kept" : "failed"}, {"stage", "video.probe"}, {"reason", "cut off"}};
    if (is_good) line.update({{"consumed", true}, {"shots", shots}});
    if (i < 2) line["url"] = std::string("/films/") + (i ? "day2" : "trip") + "/IMG_0001.mp4";
    lines += MadeUpRun::dump(line);
    if (!is_good) continue;
    const json facts{{"first_frame", i == 0 ? 12 : 0}, {"end_frame", i == 0 ? 36 : 48}};
    lines += MadeUpRun::dump(
        {{"key", key + "-0"}, {"parent", key}, {"end", "kept"}, {"caption", "a caption"}, {"facts", facts}});
    run.write("curate/data/" + key + "-0.preview.webp", tiny_preview());
  }
  run.write("curate/items.jsonl", lines);
  run.write("curate/summary.json", R"({"inputs": 22, "kept": 20, "filtered": 0, "failed": 2,
      "clips": {"kept": 20, "filtered": 0, "failed": 0}, "seconds": 75})");
  run.write("choose/summary.json",
            R"({"curated": "curate", "clips": {"kept": 12, "filtered": 8, "failed": 0},
                "rules": {"letterbox <= 0.1": 7, "studio.reject": 1}})");
  std::string decisions;
  for (int i = 0; i < 8; ++i)
    decisions += MadeUpRun::dump({{"key", "video-" + std::to_string(10 + i) + "-0"},
                                  {"end", "filtered"},
                                  {"rule", i < 7 ? "letterbox <= 0.1" : "studio.reject"}});
  run.write("choose/decisions.jsonl", decisions);
  run.write("curate/data/video-10-0.json", R"({"scores": {"filter.letterbox": 0.25}})");
  run.write("shard/summary.json",
            R"({"samples": 9, "shards": 1, "not_asked_for": {"where": "sharp > 20", "clips": 2}})");
}

// Sums that are wrong, a broken line, a damaged video, and the work of ranks.
void write_wrong(MadeUpRun& run) {
  run.write_curation("film");
  const json rot{{"key", "rot"}, {"end", "kept"}, {"damaged", "rot"}};
  run.write("curate/items.jsonl", MadeUpRun::dump(rot) + "{\"key\": \"cut o");
  run.write("curate/summary.json", R"({"inputs": 3, "kept": 1, "filtered": 0, "failed": 1, "damaged": 1,
      "without_result": {"mine": 2}})");
  const json ranks{{"steps", {2, 2}},
                   {"tokens", {4321, 1234}},
                   {"bytes_sent", {4096, 8192}},
                   {"computing_seconds", {90, 9}}};
  const json figures{{"sqnr", 20.123}, {"clipped", 0.0125}, {"underflowed", 0}};
  const json row{{"layer", "blocks.1.fc1.weight"}, {"activations", figures}, {"weights", figures}};
  run.write("dit/summary.json",
            MadeUpRun::dump({{"steps", 2}, {"ranks", ranks}, {"rounding", json::array({row})}}));
}

// 60 scores of 300 clips, some of them extreme.
void write_scores(MadeUpRun& run) {
  std::string lines = MadeUpRun::dump({{"key", "film"}, {"end", "kept"}, {"consumed", true}});
  for (int i = 0; i < 300; ++i) {
    json scores{{"a.same", 0.25},
                {"b.whole", i % 7},
                {"c.far", i % 2 ? 1.7e308 : -1.7e308},
                {"d.rare", i == 0 ? 1000 : i % 10},
                {"clip.too-short", 0.042 + 1.916 * i / 299}};
    json facts{{"bounds", {{"d.rare", {{"at_most", 100}}}, {"clip.too-short", {{"at_least", 2}}}}}};
    for (int k = 0; k < 55; ++k) scores["score-" + std::to_string(k)] = 0.001 * (i % (k + 2));
    facts["scores"] = std::move(scores);
    lines += MadeUpRun::dump({{"key", std::to_string(i)},
                              {"parent", "film"},
                              {"end", i < 2 ? "filtered" : "kept"},
                              {"reason", i ? "clip.too-short" : "d.rare"},
                              {"facts", std::move(facts)}});
  }
  run.write("curate/items.jsonl", lines);
}

void write_curve(MadeUpRun& run, int points) {
  std::string metrics;
  for (int i = 0; i < points; ++i)
    metrics +=
        MadeUpRun::dump({{"step", i}, {"loss", i % 7 == 0 ? 0 : i}, {"mfu", 1e-9 * (i + 1)}, {"l1", -5}});
  run.write("dit/metrics.jsonl", metrics);
}

void write_all(const std::filesystem::path& folder) {
  const auto save = [&](const std::string& name, const MadeUpRun& run, const std::string& text) {
    std::ofstream(folder / (name + ".html"), std::ios::binary) << make_page(run.gathered(text));
  };
  MadeUpRun run;
  save("nothing", run, "nothing");
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"hostile", kHostile}, {"plain", "plain"}}) {
    run.write_curation(text);
    run.write_rest(text);
    save(name, run, text);
  }
  run.write_rest("A video of 3 seconds.");
  save("seconds", run, "x");
  run.write("generate/videos/000.json", R"({"prompt": "A video of 9 seconds.", "sampler": "s", "nfe": 8,
      "model_calls": 21, "frames": 33, "fps": 12, "width": 96, "height": 64,
      "shots": [{"frame": 0, "prompt": "A video of 9 seconds."}, {"frame": 12, "prompt": "A dark video."}]})");
  save("shots", run, "x");
  for (const int points : {1, 2, 3, 12, 50, 5000}) {
    write_curve(run, points);
    save("curve-" + std::to_string(points), run, "plain");
  }
  write_wall(run);
  save("wall", run, "x");
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    run.write_curation("film");
    run.write_rest("x");
    run.break_files(random);
    save("broken-" + std::to_string(i), run, "x");
  }
  write_scores(run);
  save("scores", run, "x");
  write_wrong(run);
  save("wrong", run, "x");
  run.write_curation("film");
  const std::string lines = *read_file(run.folder_ / "curate/items.jsonl");
  run.write("curate/items.jsonl", lines.substr(lines.find('\n') + 1));
  save("missing", run, "x");
  write_many(run);
  save("many", run, "many");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: report_pages FOLDER\n"), 2;
  write_all(argv[1]);
}
