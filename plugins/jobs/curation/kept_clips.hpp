// The kept clips of a curate job, read from its items.jsonl in threads.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/data/in_order.hpp"

namespace kinora::core {

// The lines of the file that begin at its bytes [from, to).
template <class F>
void each_line_in(const std::filesystem::path& file, uint64_t from, uint64_t to, F&& f) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  uint64_t at = from;
  if (from > 0) {  // a line that began before `from` is another part's
    in.seekg(static_cast<std::streamoff>(from - 1));
    std::getline(in, line);
    at += line.size();
  }
  for (; at < to && std::getline(in, line); at += line.size() + 1) f(line);
  if (in.bad()) throw Error(KINORA_ERROR_IO, file.string() + ": cannot be read; is the disk in order?");
}

// Calls look(line, of) for each line about a clip that is stored, in several threads; each part of the file
// has an Of of its own. Calls take(of) in this thread, in the order of the file. Throws the errors of both,
// Error(KINORA_ERROR_CANCELLED), and Error(KINORA_ERROR_DATA) for a line that is not an object with a key.
template <class Of, class Look, class Take>
void each_kept_clip(const std::filesystem::path& curated, size_t threads, const Look& look,
                    const Take& take) {
  constexpr uint64_t kPart = uint64_t{4} << 20;
  const std::filesystem::path file = curated / "items.jsonl";
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  if (error)
    throw Error(KINORA_ERROR_NOT_FOUND, file.string() + ": file not found; run the curate job again");
  const auto part_of = [&](size_t number) {
    Of of;
    each_line_in(file, number * kPart, (number + 1) * kPart, [&](const std::string& text) {
      if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      if (text.starts_with("{\"consumed\":true,")) return;  // a video that was cut: long, and no clip
      nlohmann::json line = parse_facts(text);
      if (text_in(line, "key").empty())
        throw Error(KINORA_ERROR_DATA,
                    fmt::format("{}: a line is not an object with a \"key\": {}; run the curate job again",
                                file.string(), valid_utf8(text.substr(0, 80))));
      if (text_in(line, "end") == "kept" && !flag_in(line, "consumed")) look(std::move(line), of);
    });
    return of;
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  data::InOrder<Of>((size + kPart - 1) / kPart, threads)
      .run([&](size_t number, const auto& push) { push(part_of(number)); },
           [&](size_t, Of of) { take(std::move(of)); });
}

}  // namespace kinora::core
