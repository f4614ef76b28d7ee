// For tests: a made-up run in a temporary folder, with every text in it chosen by the test.
#pragma once
#include <fstream>
#include <random>
#include <unistd.h>

#include "plugins/jobs/data/webp_testing.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {

using test::tiny_preview;

// A hostile video name, caption or error.
const std::string kHostile =
    "\"'></style></title></pre></script><script>document.title = 1</script><img src=http://a/b "
    "onerror=document.title=2>&lt;@data@\xff\xC0\xAF\x01\xE2\x80\xAE\xC2\x85]]>"
    "--><!--<script>";

class MadeUpRun {
 public:
  MadeUpRun()
      : folder_(std::filesystem::temp_directory_path() / ("kinora-report-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~MadeUpRun() { std::filesystem::remove_all(folder_); }
  MadeUpRun(const MadeUpRun&) = delete;
  MadeUpRun& operator=(const MadeUpRun&) = delete;

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  static std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }

  // One video of three shots: a kept clip, a filtered one, a failed one; and a video that fails. `text` is
  // used wherever a text can be.
  void write_curation(const std::string& text) {
    const auto clip = [&](int first, int last, json more) {
      json line{{"key", text + std::to_string(first)},
                {"parent", text},
                {"stage", text},
                {"caption", text},
                {"reason", text}};
      line["facts"] = {{"first_frame", first}, {"end_frame", last}, {"width", 64}, {"height", 36}};
      line["facts"]["scores"] = {{"sharp", first}};
      if (more.at("end") == "filtered") line["facts"]["bounds"][text] = {{"at_least", 2.0}};
      line.update(more);
      return dump(line);
    };
    json video{{"key", text}, {"end", "kept"}, {"consumed", true}, {"url", "/videos/" + text}};
    video["shots"] = {
        {"fps", 24}, {"frames", 96}, {"cuts", {24, 60}}, {"scores", std::vector<double>(96, 3.0)}};
    video["shots"]["scores"][24] = 61.5;
    const json failed{
        {"key", text + "2"}, {"end", "failed"}, {"stage", text}, {"reason", text}, {"url", text}};
    write("curate/items.jsonl", clip(0, 24, {{"end", "kept"}}) +
                                    clip(24, 60, {{"end", "filtered"}, {"score", 1.5}}) +
                                    clip(60, 96, {{"end", "failed"}}) + dump(video) + dump(failed));
    const json clips{{"kept", 1}, {"filtered", 1}, {"failed", 1}};
    write("curate/job.json", dump({{"scores", {{text, {{"title", text}, {"unit", text}}}}}}));
    write("curate/summary.json", dump({{"inputs", 2},
                                       {"kept", 1},
                                       {"filtered", 0},
                                       {"failed", 1},
                                       {"clips", clips},
                                       {"seconds", 12.5}}));
  }

  void write_rest(const std::string& text) {
    write("shard/summary.json",
          dump({{"shards", 7}, {"samples", 1}, {"bytes", 4096}, {"note", text}, {"finished", text + text}}));
    write("latents/summary.json",
          dump({{"clips", 12}, {"samples", 3}, {"latent_shape", {16, 3, 16, 24}}, {"too_short", 0}}));
    write("choose/summary.json",
          dump({{"inputs", 1000},
                {"curated", "curate"},
                {"clips", {{"kept", 1}, {"filtered", 0}, {"failed", 0}}},
                {"rules", {{"sharp > 20", 17}}},
                {"steps",
                 {{{"rule", text + " >= 20"}, {"in", 1000}, {"removed", 250}},
                  {{"rule", "count"}, {"in", 750}, {"removed", 700}}}},
                {"joined", {{"/data/" + text, {{"rows", 500}, {"rows_of_clips", 250}, {"clips", 260}}}}},
                {"bins", {{text, 30}, {"sky", 20}}},
                {"sets", {{text, 42}, {"val", 8}}}}));
    std::string metrics;
    for (int i = 1; i <= 100; ++i)
      metrics += dump({{"step", i}, {"loss", 10.0 / i}, {"learning_rate", 1e-3}, {text, 1}});
    for (const std::string job : {"tokenizer", "dit"}) {
      write(job + "/metrics.jsonl", metrics + "{\"step\": 101, \"lo");
      write(job + "/summary.json", dump({{"steps", 100},
                                         {"samples", 3},
                                         {"loss", 0.5},
                                         {"psnr", 31.42},
                                         {"parameters", 1234567},
                                         {"seconds", 60}}));
    }
    const std::string png =
        std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x20\0\0\0\x10", 24) + std::string(8, 'x');
    for (const std::string name :
         {"tokenizer/samples/original_0", "tokenizer/samples/reconstruction_0", "generate/videos/000"})
      write(name + ".png", png);
    write("generate/videos/000.mp4", std::string("\0\0\0\x18", 4) + "ftypisom0000");
    write("generate/videos/000.json", dump({{"prompt", text},
                                            {"sampler", text},
                                            {"seed", 77},
                                            {"steps", 35},
                                            {"frames", 9},
                                            {"fps", 12},
                                            {"width", 96},
                                            {"height", 64},
                                            {"drift",
                                             {{"mean", {0, 0.05, 0.125, 0.25}},
                                              {"sharpness", {0, -0.5, -0.25, -1}},
                                              {"saturation", {0.5, 0.25, 0.125, 0.0625}}}}}));
    write("generate/summary.json", dump({{"videos", 1}, {"seconds", 3}}));
  }

  RunRecord record(const std::string& text) const {
    RunRecord run{text, "0.1.0", text, "# " + text + "\n[run]\nname = 1\n", 7, {}};
    for (const auto& [name, kind] : {std::pair{"curate", "curate"},
                                     {"choose", "select"},
                                     {"shard", "shard"},
                                     {"tokenizer", "train-tokenizer"},
                                     {"latents", "encode"},
                                     {"dit", "train"},
                                     {"generate", "generate"}}) {
      JobRecord job{name,
                    kind,
                    folder_ / name,
                    {{"where", "sharp > 20"}, {"sets", {text, "val"}}, {"shares", {3, 1}}},
                    json::object(),
                    json::object(),
                    "",
                    {{"stages", "stage/shots.content", text, {{"threshold", 27.0}, {"text", text}}}}};
      read_results(job);
      run.jobs.push_back(job);
    }
    return run;
  }
  Gathered gathered(const std::string& text) const {
    return gather(record(text), [&](const StillRequest&) { return Still{"", text}; });
  }

  // Breaks the files at random places, in the same way for the same generator.
  void break_files(std::mt19937& random) {
    const std::vector<std::string> files{"curate/items.jsonl",      "curate/summary.json", "curate/job.json",
                                         "choose/summary.json",     "dit/metrics.jsonl",   "dit/summary.json",
                                         "generate/videos/000.json"};
    const std::vector<std::string> pieces{
        "null", "-1", "1e308", "1e-320", "[]", "{}", "\"\"", ":", "99999999999999999999", "\xff", "true"};
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
  }

  std::filesystem::path folder_;
};

}  // namespace kinora::core::report
