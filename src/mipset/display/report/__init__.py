"""The report: one HTML page that opens from disk and shows everything that is known of some condensed sets.

content  what a report holds, and its form as JSON
sheets   the images of a set as one picture
files    what files hold: the set, its log, its audit
page     the page: page.html, with page.css and page.js in it, and the content as a block of JSON
"""
