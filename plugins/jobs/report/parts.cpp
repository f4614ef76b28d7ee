#include "plugins/jobs/report/parts.hpp"

#include <algorithm>
#include <set>

#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

std::string fact_text(const std::string& name, const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number()) {
    const double v = value.get<double>();
    if (name == "bytes") return byte_size(v);
    if (name == "psnr") return number(v) + "\u00A0dB";
    return value.is_number_integer() ? count(value.get<int64_t>()) : number(v, 4);
  }
  std::string out;
  if (value.is_array() && value.size() <= 8)
    for (const auto& item : value) out += (out.empty() ? "" : " × ") + fact_text("", item);
  return out;
}

// "latent_shape" -> "latent shape"
std::string spoken(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name == "psnr" ? "PSNR" : name;
}

}  // namespace

bool job_heading(Page& page, const JobRecord& job) {
  if (page.run.of_kind(job.kind).size() > 1) page.out.leaf("h3", {}, job.name);
  if (!job.done()) note(page.out, "The results of job “" + job.name + "” are missing: " + job.missing + ".");
  return job.done();
}

void note(Html& out, std::string_view text) { out.leaf("p", {{"class", "note"}}, text); }

void fact_list(Html& out, const std::vector<Fact>& facts) {
  if (facts.empty()) return;
  out.in("dl", {{"class", "facts"}}, [&] {
    for (const auto& fact : facts)
      out.in("div", {}, [&] {
        out.leaf("dt", {}, fact.name);
        out.leaf("dd", {}, fact.value);
      });
  });
}

std::vector<Fact> summary_facts(const JobRecord& job) {
  static const std::set<std::string> everywhere{"job",     "kind",     "status", "digest",
                                                "seconds", "finished", "ranks",  "transfers"};
  static const std::vector<std::string> first{"steps",  "loss",    "psnr",         "parameters",
                                              "shards", "samples", "latent_shape", "bytes"};
  std::vector<Fact> out;
  const auto add = [&](const std::string& name, const json& value) {
    if (auto text = fact_text(name, value); !text.empty()) out.push_back({spoken(name), std::move(text)});
  };
  for (const auto& name : first)
    if (job.summary.contains(name)) add(name, job.summary[name]);
  for (const auto& [name, value] : job.summary.items())
    if (!everywhere.contains(name) && std::find(first.begin(), first.end(), name) == first.end())
      add(name, value);
  return out;
}

void table(Html& out, std::string_view caption, const std::vector<Column>& columns,
           const std::vector<std::vector<Cell>>& rows) {
  out.in("div", {{"class", "scroll tabular"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", caption}},
         [&] {
           out.in("table", {}, [&] {
             out.leaf("caption", {}, caption);
             out.in("thead", {}, [&] {
               out.in("tr", {}, [&] {
                 for (const auto& column : columns)
                   out.leaf("th", {{"scope", "col"}, {"class", column.numeric ? "n" : "t"}}, column.head);
               });
             });
             out.in("tbody", {}, [&] {
               for (const auto& row : rows)
                 out.in("tr", {}, [&] {
                   for (size_t i = 0; i < row.size(); ++i) {
                     const std::string style =
                         std::string(columns[i].numeric ? "n " : "t ") + std::string(row[i].style);
                     if (i == 0)
                       out.leaf("th", {{"scope", "row"}, {"class", style}}, row[i].text);
                     else
                       out.leaf("td", {{"class", style}}, row[i].text);
                   }
                 });
             });
           });
         });
}

void picture(Html& out, const Embedded& image, const Picture& facts) {
  const std::string w = std::to_string(facts.width), h = std::to_string(facts.height);
  if (!image.uri.empty()) {
    out.single("img", {{"src", image.uri}, {"width", w}, {"height", h}, {"alt", facts.alt}});
  } else {
    const std::string shape = "aspect-ratio:" + w + "/" + h;
    out.in("div", {{"class", "blank"}, {"style", shape}},
           [&] { out.leaf("span", {}, "No picture: " + image.reason); });
  }
}

}  // namespace kinora::core::report
