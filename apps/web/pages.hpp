// Pages whose files the build has embedded into the program.
#pragma once
#include <string>
#include <vector>

#include "apps/web/server.hpp"
#include "plugins/jobs/report/page_files.hpp"

namespace kinora::web {

// Headers of every answer of a page that loads nothing from other hosts and that no page may frame. more: further
// directives of its policy, such as "media-src 'self' blob:; ".
inline Headers page_headers(const std::string& more = "") {
  return {{"Content-Security-Policy",
           "default-src 'self'; " + more + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"}};
}

// Serves each file under its path, /index.html as "/".
inline void serve_pages(Server& server, const std::vector<PageFile>& files) {
  for (const PageFile& file : files)
    server.get(file.path == "/index.html" ? "/" : std::string(file.path), [file](const Request&) {
      return Answer{
          .type = file.type, .headers = {{"Cache-Control", "no-cache"}}, .body = std::string(file.content)};
    });
}

}  // namespace kinora::web
