def page(records): yield ""
