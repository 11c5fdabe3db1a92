/* What a diagnosis's page is drawn with, src/report/page/, embedded at build time. */
#ifndef HR_REPORT_PAGE_TEXT_H
#define HR_REPORT_PAGE_TEXT_H

extern const unsigned char hr_page_style_text[], hr_page_script_text[]; /* terminated */

#endif
