"""The Schedules of the sample supplier agreement: data, and the sentences that are made of them.

Each Schedule is (title, [blocks]); a block is a paragraph, ("heading", text) or ("table", [rows]).
"""

DEFINITIONS = [
    ("Affiliate", "a company that controls a party, is controlled by it, or is under the same control; control means more than half of the votes."),
    ("Agreement", "this document with its clauses and Schedules, as amended from time to time."),
    ("Business Day", "a day from Monday to Friday on which banks in Rotterdam are open."),
    ("Business Hours", "the time from 8:00 to 18:00 Central European Time on Business Days."),
    ("Charges", "the amounts that the Customer pays for the Services under Schedule 3."),
    ("Contract Year", "a period of twelve months that begins on the Effective Date or on an anniversary of it."),
    ("Customer", "Brantwood Cold Storage N.V., with its seat in Rotterdam, operator of refrigerated warehouses."),
    ("Customer Data", "all data that the Customer, its Affiliates or their users enter into the Services, or that arise from their use of them."),
    ("Deliverable", "a result that the Supplier has to hand over under an Order, in whatever form."),
    ("Effective Date", "the day on which the second of the parties signs."),
    ("Incident", "an event that interrupts a Service or lowers its quality, or threatens to do so."),
    ("Maintenance Window", "Sunday from 2:00 to 6:00 Central European Time, unless the Order names another time."),
    ("Order", "a document signed by both parties that refers to this Agreement and describes the services to be provided."),
    ("Personal Data", "information about an identified or identifiable natural person that the Supplier processes on behalf of the Customer."),
    ("Response Time", "the time from the report of an Incident until a qualified person begins to work on it and says so."),
    ("Restoration Time", "the time from the report of an Incident until the Service can be used again as agreed, if need be by a workaround."),
    ("Services", "the services described in Schedule 2 and in Orders."),
    ("Subprocessor", "a third party that processes Personal Data on behalf of the Supplier."),
    ("Supplier", "Halvard & Pine Data Services B.V., with its seat in Utrecht, provider of hosting and application services."),
    ("Transition", "the work by which the Services are made ready for the Customer, as described in Schedule 4."),
]

# name, what it does, how the Customer uses it, availability %, response minutes, restoration hours, window, core task
SERVICES = [
    ("Warehouse management platform", "keeps the stock of all sites, plans storage and picking, and prints the labels of pallets", "from browsers and hand scanners at all sites", 99.9, 15, 4, "Sunday 2:00 to 6:00", True),
    ("Temperature monitoring", "collects readings from the sensors in cold rooms and trucks, stores them, and raises alarms", "by the control room, around the clock", 99.95, 10, 2, "first Sunday of the month 3:00 to 4:00", True),
    ("Order interface", "receives orders from the Customer\u2019s clients in the agreed formats, checks them and passes them on", "by the systems of clients, without human action", 99.9, 15, 4, "Sunday 2:00 to 6:00", True),
    ("Customs documents", "prepares declarations from the data of shipments and exchanges them with the authorities", "by the customs desk in Rotterdam and Antwerp", 99.5, 30, 8, "Sunday 2:00 to 8:00", False),
    ("Invoicing engine", "calculates storage and handling fees from movements and tariffs, and produces invoices", "by the finance department, mainly in the first week of a month", 99.5, 30, 8, "any night 1:00 to 4:00", False),
    ("Client portal", "shows stock, movements, temperatures and documents to the Customer\u2019s clients", "by some nine hundred users in client companies", 99.8, 20, 6, "Sunday 2:00 to 6:00", False),
    ("Fleet planning", "plans routes and loading of the Customer\u2019s trucks, and follows them on their way", "by the dispatchers and by drivers on mobile devices", 99.8, 20, 6, "Sunday 2:00 to 4:00", False),
    ("Document archive", "stores delivery notes, certificates and correspondence so that they cannot be altered", "by all departments, and by auditors", 99.5, 60, 12, "Saturday 22:00 to Sunday 6:00", False),
    ("Reporting database", "holds copies of operational data for reports and analysis, renewed each night", "by controllers and site managers", 99.0, 60, 24, "any night 0:00 to 5:00", False),
    ("Identity and access", "manages the accounts of users, their roles and their sign-in with two factors", "by everybody who uses any of the Services", 99.95, 10, 2, "first Sunday of the month 3:00 to 4:00", True),
    ("Integration hub", "carries messages between the Services and the Customer\u2019s own systems, with a record of each", "by systems only; the technical contact sees the record", 99.9, 15, 4, "Sunday 2:00 to 6:00", True),
    ("Service desk", "takes reports and questions by telephone, electronic mail and portal, and follows them to their end", "by all users, in English, Dutch and German", 99.5, 30, 8, "none", False),
]

# name, unit, price per unit, units included
CATALOGUE = [
    ("Base fee, all sites", "month", "18,400.00", "1"), ("Additional site", "site and month", "640.00", "0"),
    ("Named user, operations", "user and month", "21.50", "420"), ("Named user, office", "user and month", "14.20", "160"),
    ("Client portal user", "user and month", "3.10", "900"), ("Sensor connection", "sensor and month", "0.85", "5,600"),
    ("Truck unit connection", "truck and month", "6.40", "118"), ("Archive storage", "terabyte and month", "38.00", "12"),
    ("Database storage", "terabyte and month", "112.00", "6"), ("Interface message", "thousand messages", "0.42", "9,000"),
    ("Customs declaration", "declaration", "0.95", "2,200"), ("Invoice produced", "invoice", "0.11", "14,000"),
    ("Route planned", "route", "0.29", "3,100"), ("Project manager", "day", "1,180.00", "0"),
    ("Senior engineer", "day", "1,060.00", "0"), ("Engineer", "day", "890.00", "0"),
    ("Data analyst", "day", "940.00", "0"), ("Trainer", "day", "820.00", "0"),
    ("Work on Saturdays", "surcharge", "25 per cent", "-"), ("Work on Sundays and at night", "surcharge", "50 per cent", "-"),
    ("Transition fee", "once", "146,000.00", "1"), ("Third and further data exports", "export", "2,400.00", "0"),
]

MILESTONES = [
    ("M1", "Kick-off and detailed plan", "both", "week 2", "plan signed"),
    ("M2", "Networks and accounts ready", "Supplier", "week 6", "connection test"),
    ("M3", "Identity and access in use", "Supplier", "week 8", "sign-in of a pilot group"),
    ("M4", "Sensors of Rotterdam connected", "both", "week 12", "72 hours without a gap"),
    ("M5", "First load of master data", "Customer", "week 13", "count and sample check"),
    ("M6", "Integration hub connected", "Supplier", "week 15", "end-to-end messages"),
    ("M7", "Warehouse platform, pilot site", "Supplier", "week 18", "two weeks of parallel work"),
    ("M8", "Training of key users", "Supplier", "week 20", "attendance and short test"),
    ("M9", "Remaining sites, first group", "both", "week 24", "acceptance at each site"),
    ("M10", "Remaining sites, second group", "both", "week 28", "acceptance at each site"),
    ("M11", "Client portal and invoicing", "Supplier", "week 30", "one complete month"),
    ("M12", "Certificate of completion", "Customer", "week 32", "all class one defects closed"),
]

SUBCONTRACTORS = [
    ("Norrland Datacenter AB", "Lule\u00e5, Sweden", "operation of the second computing centre"),
    ("Maasvlakte Networks B.V.", "Rotterdam, Netherlands", "lines between sites and computing centres"),
    ("Sensa Fresca S.r.l.", "Verona, Italy", "supply and exchange of sensors"),
    ("Greenfield Support Ltd", "Cork, Ireland", "service desk outside Business Hours"),
    ("Abendroth Druck GmbH", "Kleve, Germany", "printing and posting of paper invoices"),
]

CONTROLS = [
    ("Policies", "A security policy is approved by the management board, reviewed each year, and known to all personnel."),
    ("Roles", "A security officer who reports to the management board is named. Conflicting tasks, such as writing and releasing software, lie with different persons."),
    ("Inventory", "All systems, data stores and suppliers are listed with an owner and a class of protection. What is not listed is not connected."),
    ("Screening", "Persons with privileged access are screened before they begin and every five years afterwards, as far as the law allows."),
    ("Awareness", "All personnel complete a course on security and data protection in the first month and then yearly. Simulated phishing messages are sent each quarter."),
    ("Access", "Access is given by role, approved by the owner of the system, reviewed every six months, and withdrawn on the day on which a person leaves."),
    ("Authentication", "Two factors are required for all remote and all privileged access. Shared accounts are forbidden; emergency accounts are sealed, and each use is examined."),
    ("Privileged work", "Administrators work from separate, hardened devices. Their sessions on systems with Customer Data are recorded."),
    ("Encryption in transit", "Data are encrypted on all networks outside of a locked rack, by current versions of the protocols concerned."),
    ("Encryption at rest", "Data stores and backups are encrypted. Keys are kept in a hardware module, apart from the data, and are changed every year."),
    ("Premises", "Computing centres are guarded around the clock and have two independent feeds of power. Visitors are accompanied and recorded."),
    ("Networks", "Networks are divided by the class of protection. Traffic between the parts is denied unless it is permitted by a rule that has an owner and an end date."),
    ("Hardening", "Systems are installed from hardened images. Departures from the baseline are detected daily."),
    ("Malware", "Current protection against malicious code runs on all endpoints and mail gateways, and its alarms are followed up around the clock."),
    ("Patching", "Security updates are applied within seven days if the weakness is critical, and within thirty days otherwise. Exceptions are approved by the security officer."),
    ("Logging", "Security events are collected in one place, protected against change, and examined by automatic rules. They contain no passwords and as few personal details as possible."),
    ("Clock", "The clocks of all systems are kept in step with at least two independent sources of time."),
    ("Development", "Code is reviewed by a second person, tested automatically and scanned for known weaknesses in components before each release."),
    ("Test data", "Personal Data are not used for tests. Where realistic data are needed, they are made up or altered beyond recognition."),
    ("Backups", "Backups are made each night, copied to the second computing centre, and restored for trial every quarter. The results of the trials are shown to the Customer."),
    ("Separation", "Customer Data are kept apart from the data of other customers, by separate databases and separate keys."),
    ("Media", "Storage media are erased by a recognised method, or destroyed, before they leave the Supplier\u2019s control. A record is kept of each."),
    ("Suppliers", "Suppliers with access to systems or data are assessed before they are engaged and every two years afterwards."),
    ("Incidents", "An incident team can be reached around the clock. The process is rehearsed twice a year, once together with the Customer."),
]

DATA_PROTECTION = [
    ("heading", "Part A. The processing"),
    "The Supplier processes Personal Data for the Customer, who is the controller, in order to provide the Services. The persons concerned are the Customer\u2019s employees, drivers of its carriers, and contact persons at its clients. The data are names, business contact details, roles, times of access, working times of drivers, and the positions of trucks.",
    "Special categories of data are not processed. If the Customer intends to enter such data, the parties first agree in writing on the measures that are needed.",
    "The Supplier processes Personal Data only on documented instructions of the Customer. This Agreement and the settings that the Customer makes in the Services are such instructions. If the Supplier holds an instruction to be unlawful, it says so, and may suspend the instruction until the Customer confirms it.",
    ("heading", "Part B. Duties of the Supplier"),
    "Persons who process Personal Data are bound to confidentiality in writing, and this duty outlasts their employment.",
    "The Supplier carries out the technical and organisational measures of Schedule 7. It may replace a measure by another one that protects at least as well, and records the change.",
    "The Supplier assists the Customer in answering requests of persons concerned. It forwards requests that reach it directly within three Business Days and does not answer them itself.",
    "The Supplier assists the Customer with impact assessments and consultations with authorities, to the extent that the information is available to it.",
    "Personal Data are processed within the European Economic Area. A transfer to another country needs the Customer\u2019s prior written consent and a valid instrument of transfer.",
    ("heading", "Part C. Subprocessors"),
    "The Subprocessors engaged on the Effective Date are the subcontractors in Schedule 6 for which the processing of Personal Data is stated there.",
    "The Supplier may engage a new Subprocessor without prior written notice to the Customer, and publishes the current list of Subprocessors on its website once a year.",
    "Each Subprocessor is bound by a written contract to the duties that this Schedule lays on the Supplier. The Supplier is liable for the acts of a Subprocessor as for its own.",
    ("heading", "Part D. Records and inspection"),
    "The Supplier keeps a record of its processing activities and shows the part that concerns the Customer on request.",
    "Inspections follow clause 22. An authority that supervises the Customer may inspect the Supplier in the same way.",
    ("heading", "Part E. End of processing"),
    "When this Agreement ends, the Supplier exports Personal Data to the Customer according to clause 27.",
    "The Supplier retains Personal Data for 36 months after this Agreement ends and deletes the Personal Data afterwards.",
    "Deletion is confirmed in writing by the Supplier\u2019s data protection officer. The confirmation names the systems, the date and the method.",
]

CONTINUITY = [
    "The Supplier keeps a plan by which the Services can be continued after the loss of a computing centre, of a site of the Supplier, or of a third of its personnel. The plan is approved by its management board and reviewed every year.",
    "The core Services marked in Schedule 2 are restored in the second computing centre within four hours, with a loss of data of no more than fifteen minutes. All other Services are restored within two days, with a loss of data of no more than one day.",
    "A complete failover is rehearsed twice a year, outside of the Customer\u2019s high season from November to January. The Customer may take part, and receives the report within ten Business Days.",
    "For temperature monitoring a fallback exists at each site: local recorders keep at least seven days of readings and sound an alarm on the spot, without a connection to the computing centre.",
    "In an emergency the Supplier treats the Customer no worse than its other customers. The order in which Services are restored is the order of the list in Schedule 2, unless the Customer names another.",
    "During an emergency the Supplier informs the Customer\u2019s control room by telephone every hour, and by a written summary twice a day. A review with causes, timeline and improvements follows within fifteen Business Days.",
    "The Supplier stores a current copy of this plan, of the contact lists and of the exit plan outside of its own computing centres, where it can be read without its own systems.",
    "If the Supplier is about to cease trading, the Customer may take over the operation of the Services for up to six months, on the Supplier\u2019s premises and with its equipment, against payment of the running cost.",
]


def definitions():
    return ["In this Agreement, the following words have the meaning stated here."] + [
        f"\u201c{word}\u201d means {meaning}" for word, meaning in DEFINITIONS
    ]


def services():
    blocks = [
        "This Schedule describes each Service, how the Customer uses it, and the service levels that the Supplier meets. Times are measured around the clock unless stated otherwise.",
    ]
    for name, does, used, available, response, restoration, window, core in SERVICES:
        blocks.append(("heading", name))
        blocks.append(f"The {name[0].lower() + name[1:]} {does}. It is used {used}.")
        blocks.append(
            "This Service is a core task, which the Supplier carries out itself." if core
            else "This Service may be carried out with the help of subcontractors.")
        blocks.append(("table", [
            ("Measure", "Level"),
            ("Availability in a calendar month", f"{available} per cent"),
            ("Response Time, incidents that stop work", f"{response} minutes"),
            ("Restoration Time, incidents that stop work", f"{restoration} hours"),
            ("Restoration Time, other incidents", f"{restoration * 4} hours"),
            ("Maintenance window", window),
        ]))
    blocks += [
        ("heading", "Service credits"),
        "For each month in which a level is missed, the Customer receives the following part of the monthly Charges of the Service concerned. Several misses in a month are added, up to thirty per cent.",
        ("table", [
            ("Miss", "Credit"), ("Availability missed by up to 0.2 points", "5 per cent"),
            ("Availability missed by 0.2 to 1 point", "12 per cent"), ("Availability missed by more", "25 per cent"),
            ("One Response Time in twenty exceeded", "4 per cent"), ("One Restoration Time in twenty exceeded", "8 per cent"),
        ]),
    ]
    return blocks


def charges():
    return [
        "Charges are in euros and without value added tax. Units beyond those included in the base are charged at the price stated; unused units are not credited.",
        ("table", [("Item", "Unit", "Price", "Included")] + CATALOGUE),
        "Discounts apply to the recurring Charges of a quarter: four per cent from 120,000 euros, seven per cent from 180,000 euros, and ten per cent from 260,000 euros.",
        "Invoices are sent as structured electronic documents to the invoicing address that the Customer names in the first Order, with the number of the Order in the field for the buyer\u2019s reference.",
    ]


def transition():
    blocks = [
        "The transition consists of the milestones below. The weeks are counted from the Effective Date. Each milestone has a test by which both parties can see that it has been reached.",
        ("table", [("No.", "Milestone", "By", "Until", "Shown by")] + MILESTONES),
        "Of the transition fee, ten per cent is due at M1, fifteen per cent each at M4, M7 and M9, twenty per cent at M11, and the rest at M12.",
        ("heading", "Key personnel"),
        ("table", [("Role", "Name"), ("Project manager", "I. Vermeer-Holt"), ("Lead engineer", "T. Okonjo"),
                   ("Data migration", "S. Lindqvist"), ("Training", "M. Baptiste"), ("Security officer", "R. Aaltonen")]),
        ("heading", "Assumptions"),
        "The Customer\u2019s present contracts for lines remain in force until M10. The hand scanners in use can run the software of the Supplier; for those that cannot, the Customer orders replacements by week 10.",
        "Parallel work of the old and the new platform at one site lasts no longer than three weeks. During this time stock movements are entered in both, and the old platform leads.",
        "A fallback to the old platform is possible at each site until ten Business Days after acceptance there. The decision is made by the Customer\u2019s operations director after hearing both project managers.",
    ]
    return blocks


def subcontractors():
    return [
        "The Supplier employs the following subcontractors on the Effective Date. Those marked with a star process Personal Data in the course of their task.",
        ("table", [("Company", "Place", "Task")] + [
            (name + (" *" if "desk" in task or "computing" in task or "printing" in task else ""), place, task)
            for name, place, task in SUBCONTRACTORS]),
        "The Supplier monitors the work of each subcontractor by monthly reports and a yearly visit. It keeps the reports for the Customer\u2019s inspection.",
        "A subcontractor that fails an assessment under Schedule 7 receives no further tasks until the shortcomings have been removed.",
    ]


def controls():
    blocks = ["The Supplier carries out the following controls in all locations from which the Services are provided."]
    for number, (name, text) in enumerate(CONTROLS, 1):
        blocks.append(("heading", f"Control {number}: {name}"))
        blocks.append(text)
    return blocks


def change_form():
    return [
        "Changes are proposed by this form. Fields that do not apply are filled with a dash, and attachments are numbered.",
        ("table", [
            ("Field", "Entry"), ("Number and date of the proposal", ""), ("Proposed by", ""), ("Services concerned", ""),
            ("Description of the change", ""), ("Reason and expected benefit", ""), ("Wished date", ""),
            ("Effect on Charges, once and recurring", ""), ("Effect on service levels", ""),
            ("Effect on the protection of data", ""), ("Effect on security controls", ""), ("Work needed from the Customer", ""),
            ("Test and acceptance criteria", ""), ("Plan for going back", ""), ("Decision and signatures", ""),
        ]),
        "A change is urgent if waiting for the next meeting would cause damage. Urgent changes may be approved by telephone by both contract managers, and are recorded on this form within two Business Days.",
        "Rejected proposals are kept with the reason. A proposal that is not decided within forty Business Days counts as rejected.",
    ]


SCHEDULES = [
    ("Definitions", definitions), ("Services and service levels", services), ("Charges", charges),
    ("Transition plan", transition), ("Protection of personal data", lambda: DATA_PROTECTION),
    ("Subcontractors", subcontractors), ("Security controls", controls), ("Change control form", change_form),
    ("Continuity of business", lambda: CONTINUITY),
]
