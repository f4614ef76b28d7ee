// For tests: a made-up run in a temporary folder, with every text in it chosen by the test, and a parser that
// accepts only the markup that the report may contain.
#pragma once
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {

// Tags in order, with "/" before end tags; every broken rule is a test failure.
inline std::vector<std::string> structure_of(const std::string& page) {
  static const std::string kWord = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::vector<std::string> tags, open;
  size_t at = page.find('>') + 1;  // after the doctype
  while ((at = page.find('<', at)) != std::string::npos) {
    const bool ends = page[at + 1] == '/';
    const size_t name = at + (ends ? 2 : 1), behind = page.find_first_not_of(kWord, name);
    const std::string tag = page.substr(name, behind - name);
    size_t end = behind;  // attributes: name="value" or a name alone
    while (page[end] == ' ') {
      const size_t from = end + 1;
      end = page.find_first_not_of(kWord + "ABCDEFGHIJKLMNOPQRSTUVWXYZ", from);
      const std::string attribute = page.substr(from, end - from);
      EXPECT_FALSE(attribute.starts_with("on")) << attribute;
      if (page.compare(end, 2, "=\"") != 0) continue;
      if (attribute == "src" || attribute == "href") {
        EXPECT_EQ(page.compare(end + 2, 5, "data:"), 0) << tag;
      }
      end = page.find('"', end + 2) + 1;
    }
    EXPECT_EQ(page[end], '>') << page.substr(at, 200);
    tags.push_back((ends ? "/" : "") + tag);
    if (!ends && tag != "meta" && tag != "img") open.push_back(tag);
    if (ends) {
      EXPECT_EQ(open.empty() ? "nothing" : open.back(), tag) << page.substr(at, 80);
      if (!open.empty()) open.pop_back();
    }
    at = tag == "style" && !ends ? page.find("</style>", end) : end;
  }
  EXPECT_TRUE(open.empty());
  return tags;
}

class MadeUpRun : public testing::Test {
 protected:
  MadeUpRun()
      : folder_(std::filesystem::temp_directory_path() / ("kinora-report-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~MadeUpRun() override { std::filesystem::remove_all(folder_); }

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
      if (more.at("end") == "filtered") line["facts"]["bounds"][text] = {{"at_least", 2.0}};
      line.update(more);
      return dump(line);
    };
    json film{{"key", text}, {"end", "kept"}, {"consumed", true}, {"url", "/films/" + text}};
    film["shots"] = {
        {"fps", 24}, {"frames", 96}, {"cuts", {24, 60}}, {"scores", std::vector<double>(96, 3.0)}};
    film["shots"]["scores"][24] = 61.5;
    const json failed{
        {"key", text + "2"}, {"end", "failed"}, {"stage", text}, {"reason", text}, {"url", text}};
    write("curate/items.jsonl", clip(0, 24, {{"end", "kept"}}) +
                                    clip(24, 60, {{"end", "filtered"}, {"score", 1.5}}) +
                                    clip(60, 96, {{"end", "failed"}}) + dump(film) + dump(failed));
    const json clips{{"kept", 1}, {"filtered", 1}, {"failed", 1}};
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
    std::string metrics;
    for (int i = 1; i <= 100; ++i)
      metrics += dump({{"step", i}, {"loss", 10.0 / i}, {"learning_rate", 1e-3}, {text, 1}});
    for (const std::string job : {"tokenizer", "dit"}) {
      write(job + "/metrics.jsonl", metrics + "{\"step\": 101, \"lo");
      write(job + "/summary.json",
            dump({{"steps", 100}, {"psnr", 31.42}, {"parameters", 1234567}, {"seconds", 60}}));
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
                                            {"width", 96},
                                            {"height", 64}}));
    write("generate/summary.json", dump({{"videos", 1}, {"seconds", 3}}));
  }

  RunRecord record(const std::string& text) const {
    RunRecord run{text, "0.1.0", text, "# " + text + "\n[run]\nname = 1\n", 7, {}};
    for (const auto& [name, kind] : {std::pair{"curate", "curate"},
                                     {"shard", "shard"},
                                     {"tokenizer", "train-tokenizer"},
                                     {"dit", "train"},
                                     {"generate", "generate"}}) {
      JobRecord job{name,
                    kind,
                    folder_ / name,
                    {},
                    json::object(),
                    "",
                    {{"stages", "stage/shots.content", text, {{"threshold", 27.0}, {"text", text}}}}};
      read_summary(job);
      run.jobs.push_back(job);
    }
    return run;
  }
  std::string page(const std::string& text) const {
    return make_page(record(text), [&](const StillRequest&) { return Still{"", text}; }).page;
  }

  std::filesystem::path folder_;
};

}  // namespace kinora::core::report
